// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2x4x6xf32>, %b: tensor<3x6x4xf32>) {
  %0 = tessera.matmul %a, %b : (tensor<2x4x6xf32>, tensor<3x6x4xf32>) -> tensor<2x4x4xf32>
  return
}
