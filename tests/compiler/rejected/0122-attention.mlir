// SPDX-License-Identifier: Apache-2.0
func.func @f(%q: tensor<2x3x5x8xf32>, %k: tensor<2x2x7x8xf32>) {
  %0 = tessera.attention %q, %k, %k : (tensor<2x3x5x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>) -> tensor<2x3x5x8xf32>
  return
}
