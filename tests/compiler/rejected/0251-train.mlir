// SPDX-License-Identifier: Apache-2.0
// run: -tessera-effects
func.func @train(%x: tensor<8x4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"})
    attributes {tessera.entry = "train", tessera.effects = ["random"]} {
  %w = tessera.param "w" init = #tessera.normal<0.0, 0.02> : tensor<4xf32>
  %0 = tessera.mul %x, %w : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %1 = tessera.mean %0 {axes = [0, 1]} : tensor<8x4xf32> -> tensor<f32>
  tessera.minimize %1 {optimizer = #tessera.sgd<lr = 0.1>} : tensor<f32>
  return %1 : tensor<f32>
}
