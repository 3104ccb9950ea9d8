// SPDX-License-Identifier: Apache-2.0
tsched.func @crossed(%a: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {kind = "rows"} {
  %0 = tessera.sum %a {axes = [1]} : tensor<4x4xf32> -> tensor<4xf32>
  %1 = tessera.sub %a, %0 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  tsched.return %1 : tensor<4x4xf32>
}
