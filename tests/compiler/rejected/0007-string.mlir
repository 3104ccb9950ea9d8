// SPDX-License-Identifier: Apache-2.0
// one fewer is accepted
// fill: 16777217 w
func.func @f() {
  %0 = tessera.param "{fill}" init = #tessera.constant<0.0> : tensor<2xf32>
  return
}
