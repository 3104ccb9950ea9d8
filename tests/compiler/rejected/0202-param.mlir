// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f() {
  %0 = tessera.param "w" init = #tessera.constant<0.0> : tensor<2xf32>
  return
}
func.func @g() {
  %0 = tessera.param "w" init = #tessera.constant<1.0> : tensor<2xf32>
  return
}
