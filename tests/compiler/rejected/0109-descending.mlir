// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0:2 = tessera.sort %a {axis = 1, descending} : tensor<4x6xf32> -> (tensor<4x6xf32>, tensor<4x6xi64>)
  return
}
