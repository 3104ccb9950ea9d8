// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  %0 = "tessera.param"() {init = #tessera.constant<1.0> : tensor<3xf32>} : () -> tensor<2xf32>
  return
}
