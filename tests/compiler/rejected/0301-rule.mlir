// SPDX-License-Identifier: Apache-2.0
// run: -tessera-autodiff
func.func @f(%l: tensor<4x3xf32> {tessera.data = "x"}, %y: tensor<4xi64> {tessera.data = "y"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<4xf32>
  %0 = tessera.cross_entropy_grad %l, %y, %w : tensor<4x3xf32>, tensor<4xi64>, tensor<4xf32> -> tensor<4x3xf32>
  %1 = tessera.sum %0 {axes = [0, 1]} : tensor<4x3xf32> -> tensor<f32>
  tessera.minimize %1 {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}
