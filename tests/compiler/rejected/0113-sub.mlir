// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2xf32>) {
  %0 = tessera.sub %a, %a : tensor<2xf32> -> tensor<1x2xf32>
  return
}
