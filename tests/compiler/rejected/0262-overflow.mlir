// SPDX-License-Identifier: Apache-2.0
// run: -tessera-constraints
func.func @f(%x: tensor<4x771xf32> {tessera.name = "x", tessera.dims = ["B", "D"]}) -> (tensor<4x771xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.constraints = ["9223372036854775807 * D + D == B * 9223372036854775807 + 2"]} {
  return %x : tensor<4x771xf32>
}
