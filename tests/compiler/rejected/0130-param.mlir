// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  %0 = tessera.param "w" init = #tessera.uniform<1.0, -1.0> : tensor<2xf32>
  return
}
