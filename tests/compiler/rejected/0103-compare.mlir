// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2xf32>, %b: tensor<3xf32>) {
  %0 = tessera.compare lt %a, %b : (tensor<2xf32>, tensor<3xf32>) -> tensor<3xi1>
  return
}
