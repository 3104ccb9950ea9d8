// SPDX-License-Identifier: Apache-2.0
tsched.func @kind(%a: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {kind = "map"} {
  %0 = tessera.matmul %a, %a : tensor<4x4xf32> -> tensor<4x4xf32>
  tsched.return %0 : tensor<4x4xf32>
}
