// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>, %i: tensor<2xi64>, %u: tensor<2x5xf32>) {
  %0 = tessera.scatter_add %a, %i, %u {axis = 0} : (tensor<4x6xf32>, tensor<2xi64>, tensor<2x5xf32>)
  return
}
