// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0:2 = tessera.split %a {axis = 1} : tensor<4x6xf32> -> (tensor<4x2xf32>, tensor<4x3xf32>)
  return
}
