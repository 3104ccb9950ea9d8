// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  %0 = tessera.opt.state "w.m" of "w" kind "adam_m" init = #tessera.constant<1.0e999> : tensor<2xf32>
  return
}
