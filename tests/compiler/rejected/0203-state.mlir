// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f() {
  %0 = tessera.opt.state "m" of "w" kind "adam_m" : tensor<4xf32>
  return
}
