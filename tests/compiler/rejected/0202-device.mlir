// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @device(%x: tensor<2xf32> {tessera.name = "x"}) -> (tensor<2xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.exp %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
