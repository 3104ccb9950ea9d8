// SPDX-License-Identifier: Apache-2.0
tsched.func @shapes(%a: tensor<4x4xf32>, %b: tensor<2xf32>) -> (tensor<4x4xf32>, tensor<2xf32>) attributes {kind = "map"} {
  %0 = tessera.exp %a : tensor<4x4xf32>
  %1 = tessera.exp %b : tensor<2xf32>
  tsched.return %0, %1 : tensor<4x4xf32>, tensor<2xf32>
}
