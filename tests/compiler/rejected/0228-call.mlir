// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = call @g(%x) {tessera.under = "block"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
