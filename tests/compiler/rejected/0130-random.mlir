// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  %0 = tessera.random_uniform {low = 2.0, high = 1.0} : tensor<4xf32>
  return
}
