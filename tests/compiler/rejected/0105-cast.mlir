// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2xf32>) {
  %0 = tessera.cast %a : tensor<2xf32> -> tensor<3xi64>
  return
}
