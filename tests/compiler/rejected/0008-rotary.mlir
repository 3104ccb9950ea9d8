// SPDX-License-Identifier: Apache-2.0
// run: -tessera-graph
func.func @f(%x: tensor<1099511627776x4xf32> {tessera.name = "x"}) -> (tensor<1099511627776x4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.rotary %x {axis = 0} : tensor<1099511627776x4xf32>
  return %0 : tensor<1099511627776x4xf32>
}
