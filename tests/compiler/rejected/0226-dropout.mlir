// SPDX-License-Identifier: Apache-2.0
// run: -inline -tessera-streams
func.func private @block(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tessera.dropout %x {rate = 0.5} : tensor<4xf32> -> tensor<4xf32>
  %1 = tessera.dropout %0 {rate = 0.5} : tensor<4xf32> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @train(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  %0 = func.call @block(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = func.call @block(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = tessera.random_normal : tensor<4xf32>
  %3 = tessera.random_uniform {stream = 7 : i64} : tensor<4xf32>
  return %1 : tensor<4xf32>
}
