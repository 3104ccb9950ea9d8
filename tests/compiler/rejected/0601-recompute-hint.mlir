// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  tessera.schedule.recompute_hint {policy = "some"}
  return
}
