// SPDX-License-Identifier: Apache-2.0
// run: -tessera-autodiff
func.func @nameless() -> tensor<f32> {
  %w = tessera.param init = #tessera.constant<0.0> : tensor<f32>
  tessera.minimize %w {optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %w : tensor<f32>
}
