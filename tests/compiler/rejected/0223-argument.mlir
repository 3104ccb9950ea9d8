// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f(%x: tensor<4xi24> {tessera.name = "x"}) -> (tensor<4xi24> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  return %x : tensor<4xi24>
}
