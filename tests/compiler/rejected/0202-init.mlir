// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f() {
  %0 = tessera.param "w" init = #tessera.constant<0.0> : tensor<2xf32>
  %1 = tessera.param "w" init = #tessera.constant<0.0> : tensor<3xf32>
  return
}
