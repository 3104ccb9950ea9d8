// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2x2xi32>) {
  %0 = tessera.matmul %a, %a : tensor<2x2xi32> -> tensor<2x2xi32>
  return
}
