// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f(%x: tensor<2xf32> {tessera.name = "x"}) -> (tensor<2xf32> {tessera.name = "y"}, tensor<2xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  return %x, %x : tensor<2xf32>, tensor<2xf32>
}
