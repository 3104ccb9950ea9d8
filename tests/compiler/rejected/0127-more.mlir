// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0:2 = tessera.split %a {axis = 0} : tensor<4x6xf32> -> (tensor<4x6xf32>, tensor<1x6xf32>)
  return
}
