// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>, %s: tensor<5xf32>) {
  %0 = tessera.layernorm_safe %a, %s {axes = [1]} : (tensor<4x6xf32>, tensor<5xf32>) -> tensor<4x6xf32>
  return
}
