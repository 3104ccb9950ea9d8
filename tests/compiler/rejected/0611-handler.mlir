// SPDX-License-Identifier: Apache-2.0
// run: -tessera-handlers
func.func @f() {
  tessera.resilience.on_failure(handler = @g)
  return
}
