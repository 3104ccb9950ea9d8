// SPDX-License-Identifier: Apache-2.0
// run: -tessera-identify
func.func @train(%x: tensor<4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<4xf32>
  %a = tessera.hyperparameter {key = "lr", value = 0.5} : tensor<f32>
  %p = tessera.mul %x, %w : tensor<4xf32>
  %y = tessera.mul %p, %a : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %l = tessera.mean %y {axes = [0]} : tensor<4xf32> -> tensor<f32>
  tessera.minimize %l {optimizer = #tessera.sgd<lr = 0.1>} : tensor<f32>
  return %l : tensor<f32>
}
