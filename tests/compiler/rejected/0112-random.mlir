// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  %0 = tessera.random_normal : tensor<4xi64>
  return
}
