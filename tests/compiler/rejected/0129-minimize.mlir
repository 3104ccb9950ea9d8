// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<f32>) {
  tessera.minimize %a {optimizer = #tessera.adamw<lr = 0.1, beta1 = 0.9, beta2 = 1.0, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return
}
