// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f(%x: tensor<4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "eval"} {
  %0 = tessera.sum %x {axes = [0]} : tensor<4xf32> -> tensor<f32>
  return %0 : tensor<f32>
}
