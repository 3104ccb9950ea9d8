// SPDX-License-Identifier: Apache-2.0
// run: -inline -tessera-drop-other-functions
func.func @lonely() {
  return
}
