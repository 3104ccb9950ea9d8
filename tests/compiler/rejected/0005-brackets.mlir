// SPDX-License-Identifier: Apache-2.0
// one fewer is accepted
// nest: 256 [ ]
func.func @f() attributes {a = {nest}} {
  return
}
