// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify-lowered
func.func private @helper() {
  return
}
