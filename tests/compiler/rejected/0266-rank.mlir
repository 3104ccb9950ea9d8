// SPDX-License-Identifier: Apache-2.0
// run: -tessera-constraints
func.func @f(%x: tensor<4x771xf32> {tessera.name = "x", tessera.dims = ["D"]}) -> (tensor<4x771xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.constraints = []} {
  return %x : tensor<4x771xf32>
}
