// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f() {
  %0 = tessera.param "w" init = #tessera.constant<0.0> : tensor<0x4xf32>
  return
}
