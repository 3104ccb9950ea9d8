// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0:2 = tessera.sort %a {axis = 1} : tensor<4x6xf32> -> (tensor<4x6xf32>, tensor<4x6xi64>)
  %1 = tessera.exp %0#2 : tensor<4x6xf32>
  return
}
