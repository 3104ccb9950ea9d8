// SPDX-License-Identifier: Apache-2.0
tsched.func @group(%a: tensor<4xf32>) -> tensor<4xf32> attributes {kind = "map", source = "autotune", tile = [2, 4]} {
  %0 = tessera.exp %a : tensor<4xf32>
  tsched.return %0 : tensor<4xf32>
}
func.func @types(%a: tensor<5xf32>) -> tensor<5xf32> {
  %0 = tsched.call @group(%a) : (tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
