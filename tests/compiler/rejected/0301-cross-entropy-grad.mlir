// SPDX-License-Identifier: Apache-2.0
// run: -tessera-autodiff
func.func @no_rule(%l: tensor<2xi64>, %d: tensor<2xf32>) -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<2x3xf32>
  %0 = tessera.cross_entropy_grad %w, %l, %d : tensor<2x3xf32>, tensor<2xi64>, tensor<2xf32> -> tensor<2x3xf32>
  %loss = tessera.sum %0 {axes = [0, 1]} : tensor<2x3xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}
