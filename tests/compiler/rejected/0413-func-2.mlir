// SPDX-License-Identifier: Apache-2.0
tsched.func @other_axes(%a: tensor<4x4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) attributes {kind = "rows"} {
  %0 = tessera.sum %a {axes = [2]} : tensor<4x4x4xf32> -> tensor<4x4xf32>
  %1 = tessera.sum %a {axes = [1, 2]} : tensor<4x4x4xf32> -> tensor<4xf32>
  tsched.return %0, %1 : tensor<4x4xf32>, tensor<4xf32>
}
