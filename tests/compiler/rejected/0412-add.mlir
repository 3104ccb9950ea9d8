// SPDX-License-Identifier: Apache-2.0
tsched.func @vanished(%a: tensor<4x4xf32>) -> tensor<4xf32> attributes {kind = "reduce"} {
  %0 = tessera.exp %a : tensor<4x4xf32>
  %1 = tessera.sum %0 {axes = [0]} : tensor<4x4xf32> -> tensor<4xf32>
  %2 = tessera.add %0, %1 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %3 = tessera.neg %1 : tensor<4xf32>
  tsched.return %3 : tensor<4xf32>
}
