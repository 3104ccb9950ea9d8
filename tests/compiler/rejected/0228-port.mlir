// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
// Other tools' names pass.
func.func @f(%x: tensor<4xf32> {tessera.name = "x", tool.note = "here", tessera.dada = "x"}) -> (tensor<4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer", tool.note = "there"} {
  return %x : tensor<4xf32>
}
