// SPDX-License-Identifier: Apache-2.0
// run: -tessera-constraints
func.func @f(%x: tensor<4x771xf32> {tessera.name = "x", tessera.dims = ["B", "D"]}) -> (tensor<4x771xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.constraints = ["B in 1..=64", "D == 4 * B", "D > 256", "D % 2 == 0"]} {
  return %x : tensor<4x771xf32>
}
