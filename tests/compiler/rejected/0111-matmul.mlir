// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2x2xf32>, %b: tensor<2x2xf64>) {
  %0 = tessera.matmul %a, %b : (tensor<2x2xf32>, tensor<2x2xf64>) -> tensor<2x2xf32>
  return
}
