// SPDX-License-Identifier: Apache-2.0
// run: -tessera-identify
func.func @train(%x: tensor<f32> {tessera.name = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  %a = tessera.hyperparameter {key = "alpha", value = 0.5} : tensor<f32>
  %b = tessera.hyperparameter {key = "alpha", value = 0.25} : tensor<f32>
  %z = tessera.mul %x, %a : tensor<f32>
  %y = tessera.mul %z, %b : tensor<f32>
  return %y : tensor<f32>
}
