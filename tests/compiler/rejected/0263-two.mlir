// SPDX-License-Identifier: Apache-2.0
// run: -tessera-constraints
func.func @f(%x: tensor<4x771xf32> {tessera.name = "x", tessera.dims = ["B", "D"]}) -> (tensor<4x771xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.constraints = ["B >= 1", "D % 8 == 0", "D % 12 == 3", "B <= D"]} {
  return %x : tensor<4x771xf32>
}
