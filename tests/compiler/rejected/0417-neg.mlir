// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify-scheduled
func.func @f(%x: tensor<8x4xf32> {tessera.name = "x"}) -> (tensor<8x4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tsched.call @k0_exp(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = tessera.neg %0 : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
tsched.func @k0_exp(%x: tensor<8x4xf32>) -> tensor<8x4xf32> attributes {kind = "map", source = "default"} {
  %0 = tessera.exp %x : tensor<8x4xf32>
  tsched.return %0 : tensor<8x4xf32>
}
