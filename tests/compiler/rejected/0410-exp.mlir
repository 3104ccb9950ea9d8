// SPDX-License-Identifier: Apache-2.0
tsched.func @prologue(%a: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {kind = "matmul"} {
  %0 = tessera.exp %a : tensor<4x4xf32>
  %1 = tessera.matmul %0, %a : tensor<4x4xf32> -> tensor<4x4xf32>
  tsched.return %1 : tensor<4x4xf32>
}
