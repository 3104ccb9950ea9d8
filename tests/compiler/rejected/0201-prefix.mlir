// SPDX-License-Identifier: Apache-2.0
// run: -tessera-specialize-calls
func.func private @block(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @infer(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = call @block(%x) {tessera.prefix = ""} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
