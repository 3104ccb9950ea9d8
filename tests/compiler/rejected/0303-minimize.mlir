// SPDX-License-Identifier: Apache-2.0
// run: -tessera-autodiff
func.func @constant(%x: tensor<f32>) -> tensor<f32> {
  tessera.minimize %x {optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %x : tensor<f32>
}
