// SPDX-License-Identifier: Apache-2.0
// run: -tessera-keep-entries
func.func @f() attributes {tessera.entry = "infer"} {
  call @f() : () -> ()
  return
}
