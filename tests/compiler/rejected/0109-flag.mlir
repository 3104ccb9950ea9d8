// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = "tessera.matmul"(%a, %a) <{transpose_b = 1 : i64}> : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
  return
}
