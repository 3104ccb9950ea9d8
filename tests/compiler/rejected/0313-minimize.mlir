// SPDX-License-Identifier: Apache-2.0
// run: -tessera-autodiff
func.func @train(%x: tensor<8x4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.normal<0.0, 0.02> : tensor<4xf32>
  %0 = tessera.mul %x, %w : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %1 = tessera.mean %0 {axes = [0, 1]} : tensor<8x4xf32> -> tensor<f32>
  %2 = tessera_sr.all_reduce %1 {axis = "data"} : (tensor<f32>) -> tensor<f32>
  tessera.minimize %2 {optimizer = #tessera.sgd<lr = 0.1>} : tensor<f32>
  return %2 : tensor<f32>
}
