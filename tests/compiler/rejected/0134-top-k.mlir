// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0:2 = tessera.top_k %a {axis = 1, k = 7} : tensor<4x6xf32> -> (tensor<4x7xf32>, tensor<4x7xi64>)
  return
}
