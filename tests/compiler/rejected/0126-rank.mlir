// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>, %b: tensor<4xf32>) {
  %0 = tessera.concat %a, %b {axis = 0} : (tensor<4x6xf32>, tensor<4xf32>) -> tensor<8x6xf32>
  return
}
