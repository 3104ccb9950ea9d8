// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  tessera.schedule.checkpoint {budget_bytes = -1 : i64} {}
  return
}
