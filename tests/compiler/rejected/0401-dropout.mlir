// SPDX-License-Identifier: Apache-2.0
// run: -tsched-fuse
func.func @f(%x: tensor<4x6xf32> {tessera.name = "x"}) -> (tensor<4x6xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.dropout %x {rate = 0.5} : tensor<4x6xf32> -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
