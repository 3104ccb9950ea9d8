// SPDX-License-Identifier: Apache-2.0
// run: -tessera-autodiff
func.func private @f(tensor<2xf32>) -> tensor<f32>
func.func @call() -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<2xf32>
  %loss = call @f(%w) : (tensor<2xf32>) -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}
