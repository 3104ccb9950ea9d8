// SPDX-License-Identifier: Apache-2.0
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x7x6xf32>) {
  %0 = tessera.attention %q, %k, %k : (tensor<2x4x5x8xf32>, tensor<2x4x7x6xf32>, tensor<2x4x7x6xf32>) -> tensor<2x4x5x6xf32>
  return
}
