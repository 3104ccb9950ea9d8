// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  %0 = tessera.iota {axis = 0} : tensor<4xi1>
  return
}
