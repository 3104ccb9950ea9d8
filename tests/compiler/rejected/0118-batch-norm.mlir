// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>, %s: tensor<6xf32>, %m: tensor<4xf32>) {
  %0 = tessera.batch_norm %a, %s, %s, %m, %s {axis = 1} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  return
}
