// SPDX-License-Identifier: Apache-2.0
func.func @f(%loss: tensor<f32>) {
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 0.001, beta1 = 0.9, beta2 = 0.999, eps = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}
