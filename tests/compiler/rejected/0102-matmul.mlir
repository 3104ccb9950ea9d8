// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<8x64xf32>, %b: tensor<63x10xf32>) {
  %0 = tessera.matmul %a, %b : (tensor<8x64xf32>, tensor<63x10xf32>) -> tensor<8x10xf32>
  return
}
