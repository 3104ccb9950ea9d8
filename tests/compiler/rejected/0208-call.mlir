// SPDX-License-Identifier: Apache-2.0
// run: -inline -tessera-drop-other-functions
func.func private @again(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @again(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @entry(%x: tensor<2xf32> {tessera.name = "x"}) -> (tensor<2xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = call @again(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
