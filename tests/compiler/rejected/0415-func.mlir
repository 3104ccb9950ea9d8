// SPDX-License-Identifier: Apache-2.0
tsched.func @tile(%a: tensor<4xf32>) -> tensor<4xf32> attributes {kind = "map", tile = [4, -1]} {
  %0 = tessera.exp %a : tensor<4xf32>
  tsched.return %0 : tensor<4xf32>
}
