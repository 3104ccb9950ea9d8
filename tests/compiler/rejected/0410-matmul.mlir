// SPDX-License-Identifier: Apache-2.0
tsched.func @two_roots(%a: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {kind = "matmul"} {
  %0 = tessera.matmul %a, %a : tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = tessera.matmul %0, %a : tensor<4x4xf32> -> tensor<4x4xf32>
  tsched.return %1 : tensor<4x4xf32>
}
