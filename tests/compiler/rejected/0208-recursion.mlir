// SPDX-License-Identifier: Apache-2.0
// run: -tessera-drop-other-functions
func.func @f() attributes {tessera.entry = "infer"} {
  call @f() : () -> ()
  return
}
