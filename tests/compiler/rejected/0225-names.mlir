// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f() {
  %0 = tessera.opt.state "m" of "" kind "adam_m" init = #tessera.constant<0.0> : tensor<4xf32>
  return
}
