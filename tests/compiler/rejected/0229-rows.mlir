// SPDX-License-Identifier: Apache-2.0
// run: -tessera-prove-rows
func.func @f(%x: tensor<6x4xf32> {tessera.name = "x"}) -> (tensor<6x4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer", tessera.rows_independent} {
  %0 = tessera.mean %x {axes = [0]} : tensor<6x4xf32> -> tensor<4xf32>
  %1 = tessera.sub %x, %0 : (tensor<6x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  return %1 : tensor<6x4xf32>
}
