// SPDX-License-Identifier: Apache-2.0
// run: -tessera-decompose
func.func @f() {
  %0 = tessera.random_normal : tensor<4xf32>
  return
}
