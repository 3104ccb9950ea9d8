// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f() attributes {tessera.entry = "learn"} {
  return
}
