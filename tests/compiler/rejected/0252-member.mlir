// SPDX-License-Identifier: Apache-2.0
// run: -tessera-effects
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {tessera.deterministic = {seed = 1 : i64, order = "tree"}} {
  return %x : tensor<4xf32>
}
