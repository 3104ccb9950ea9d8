// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<1x1x1x1x1x1x1x2xf32>, %i: tensor<3x3xi64>) {
  %0 = tessera.gather %a, %i {axis = 0} : (tensor<1x1x1x1x1x1x1x2xf32>, tensor<3x3xi64>) -> tensor<3x3x1x1x1x1x1x2xf32>
  return
}
