// SPDX-License-Identifier: Apache-2.0
func.func @f(%l: tensor<4x3xf32>, %i: tensor<5xi64>) {
  %0 = tessera.scatter_add %l, %i, %l {axis = 0} : tensor<4x3xf32>, tensor<5xi64>, tensor<4x3xf32>
  return
}
