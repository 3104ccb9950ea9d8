// SPDX-License-Identifier: Apache-2.0
// run: -tessera-effects
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {tessera.effects = "random"} {
  return %x : tensor<4xf32>
}
