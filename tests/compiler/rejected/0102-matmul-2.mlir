// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<8x64xf32>, %b: tensor<8x10xf32>) {
  %0 = tessera.matmul %a, %b {transpose_a = true, transpose_b = true} : (tensor<8x64xf32>, tensor<8x10xf32>) -> tensor<64x8xf32>
  return
}
