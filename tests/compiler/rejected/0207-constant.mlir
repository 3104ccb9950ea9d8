// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @foreign() {
  %0 = arith.constant 1.0 : f32
  return
}
