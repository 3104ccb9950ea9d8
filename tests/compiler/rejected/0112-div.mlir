// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2xf32>) {
  %0 = tessera.div %a, %a : tensor<2xf32> -> tensor<2xf64>
  return
}
