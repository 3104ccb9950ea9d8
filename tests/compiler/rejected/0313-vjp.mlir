// SPDX-License-Identifier: Apache-2.0
// run: -tessera-effects
func.func private @share(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tessera.effects.suspend {effects = ["collective"]} {
    %1 = tessera_sr.all_reduce %x {axis = "data"} : (tensor<4xf32>) -> tensor<4xf32>
    tessera.yield %1 : tensor<4xf32>
  } : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "g"})
    attributes {tessera.entry = "infer", tessera.effects = []} {
  %y, %g = tessera.vjp %x, %x {
  ^bb0(%a: tensor<4xf32>):
    %0 = func.call @share(%a) : (tensor<4xf32>) -> tensor<4xf32>
    tessera.yield %0 : tensor<4xf32>
  } : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %g : tensor<4xf32>
}
