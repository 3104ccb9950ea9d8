// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2xf32>, %b: tensor<2xi64>) {
  %0 = tessera.mul %a, %b : (tensor<2xf32>, tensor<2xi64>) -> tensor<2xf32>
  return
}
