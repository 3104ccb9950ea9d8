// SPDX-License-Identifier: Apache-2.0
// run: -tessera-autodiff
func.func @dynamic(%x: tensor<?x3xf32>) -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<3xf32>
  %0 = tessera.mul %x, %w : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %loss = tessera.sum %0 {axes = [0, 1]} : tensor<?x3xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}
