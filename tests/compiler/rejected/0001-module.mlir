// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2xf32>) {
  %0 = tessera.compare like %a, %a : tensor<2xf32> -> tensor<2xi1>
  return
}
