// SPDX-License-Identifier: Apache-2.0
// run: -tessera-effects
func.func private @noise(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tessera.scan %x {
  ^bb0(%a: tensor<4xf32>):
    %1 = tessera.dropout %a {rate = 0.5} : tensor<4xf32>
    tessera.yield %1 : tensor<4xf32>
  } {carried = 1 : i64, length = 3 : i64} : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @block(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @noise(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer", tessera.effects = ["state"]} {
  %0 = func.call @block(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
