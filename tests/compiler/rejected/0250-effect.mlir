// SPDX-License-Identifier: Apache-2.0
// run: -tessera-effects
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {tessera.effects = ["randon", "state"]} {
  %0 = tessera.dropout %x {rate = 0.5} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
