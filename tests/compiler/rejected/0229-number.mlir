// SPDX-License-Identifier: Apache-2.0
// run: -tessera-prove-rows
func.func @f(%x: tensor<6xf32> {tessera.data = "x"}) -> (tensor<6xf32> {tessera.name = "y"}) attributes {tessera.entry = "eval"} {
  %0 = tessera.random_uniform {stream = 1 : i64} : tensor<6xf32>
  %1 = tessera.add %x, %0 : tensor<6xf32>
  return %1 : tensor<6xf32>
}
