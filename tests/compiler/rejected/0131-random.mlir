// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  %0 = tessera.random_normal {deviation = 0.0} : tensor<4xf32>
  return
}
