// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  %0 = tessera.param "w" init = #tessera.constant<0x7FF8000000000000> : tensor<4xf32>
  return
}
