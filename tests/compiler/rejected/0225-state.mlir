// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f() {
  %0 = tessera.opt.state "w.m" of "w" kind "adam_m" init = #tessera.constant<0.0> : tensor<2xf32>
  return
}
