// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>, %b: tensor<3x6xf32>) {
  %0 = tessera.concat %a, %b {axis = 1} : (tensor<4x6xf32>, tensor<3x6xf32>) -> tensor<4x12xf32>
  return
}
