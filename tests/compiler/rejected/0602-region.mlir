// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  %t = tessera.resilience.region {mode = "again"} {} : !tessera.res.token
  return
}
