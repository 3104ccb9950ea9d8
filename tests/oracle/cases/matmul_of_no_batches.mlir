// SPDX-License-Identifier: Apache-2.0
// Batches merged into rows divided by an empty dim.
func.func @s280(%v1: tensor<23x0x11x0xf32> {tessera.name = "v1"}, %v2: tensor<0x0xf32> {tessera.name = "v2"}) -> (tensor<23x0x11x0xf32> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %v3 = "tessera.matmul"(%v1, %v2) {transpose_a = false, transpose_b = false} : (tensor<23x0x11x0xf32>, tensor<0x0xf32>) -> tensor<23x0x11x0xf32>
  "func.return"(%v3) : (tensor<23x0x11x0xf32>) -> ()
}
