// SPDX-License-Identifier: Apache-2.0
func.func @f(%l: tensor<4x2147483648xf32>, %i: tensor<4xi64>) {
  %0 = tessera.cross_entropy %l, %i : (tensor<4x2147483648xf32>, tensor<4xi64>) -> tensor<4xf32>
  return
}
