// SPDX-License-Identifier: Apache-2.0
func.func @f(%p: tensor<4xf32>, %t: tensor<1xi64>) {
  %new:3 = tessera.adamw %p, %p, %p, %p, %t {optimizer = #tessera.adamw<lr = 0.001, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xi64>)
  return
}
