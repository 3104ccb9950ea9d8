// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2x0xf32>) {
  %0 = tessera.argmax %a {axis = 1} : tensor<2x0xf32> -> tensor<2xi64>
  return
}
