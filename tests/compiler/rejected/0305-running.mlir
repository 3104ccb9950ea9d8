// SPDX-License-Identifier: Apache-2.0
// run: -tessera-autodiff
func.func @f(%x: tensor<4x6xf32> {tessera.data = "x"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<6xf32>
  %0:3 = tessera.batch_norm_train %x, %w, %w, %w, %w {axis = 1} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)
  %1 = tessera.sum %0#1 {axes = [0]} : tensor<6xf32> -> tensor<f32>
  tessera.minimize %1 {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}
