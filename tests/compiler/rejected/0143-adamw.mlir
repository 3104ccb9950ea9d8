// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2xf32>, %t: tensor<1xi64>) {
  %0:3 = tessera.adamw %a, %a, %a, %a, %t {optimizer = #tessera.adamw<lr = 0.1, beta1 = 0.9, beta2 = 0.5, eps = 1.0e-8, weight_decay = 0.0>} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<1xi64>)
  return
}
