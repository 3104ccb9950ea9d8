// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  %0 = tessera.iota {axis = 1} : tensor<2x129xi8>
  return
}
