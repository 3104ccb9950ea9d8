// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  return
  return
}
