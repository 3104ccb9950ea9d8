// SPDX-License-Identifier: Apache-2.0
// run: -inline -tessera-keep-entries
func.func @lonely() {
  return
}
