// SPDX-License-Identifier: Apache-2.0
// run: -tessera-identify
func.func @predict(%x: tensor<f32> {tessera.name = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %a = tessera.hyperparameter {key = "alpha", value = 0.5} : tensor<f32>
  %y = tessera.mul %x, %a : tensor<f32>
  return %y : tensor<f32>
}
