// SPDX-License-Identifier: Apache-2.0
func.func @f(%q: tensor<2x4x5x8xf32>) {
  %0:3 = "tessera.attention"(%q, %q, %q) : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> (tensor<2x4x5x8xf32>, tensor<2x4x5xf32>, tensor<2x4x5xf32>)
  return
}
