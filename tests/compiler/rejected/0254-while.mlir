// SPDX-License-Identifier: Apache-2.0
// run: -tessera-order-collectives
func.func @f(%x: tensor<f32> {tessera.name = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.while %x {
  ^bb0(%a: tensor<f32>):
    %limit = tessera.constant dense<1.0> : tensor<f32>
    %1 = tessera.compare lt %a, %limit : tensor<f32> -> tensor<i1>
    tessera.yield %1 : tensor<i1>
  } do {
  ^bb0(%a: tensor<f32>):
    %1 = tessera_sr.broadcast %a {axis = "data"} : (tensor<f32>) -> tensor<f32>
    %2 = tessera.add %1, %x : tensor<f32>
    tessera.yield %2 : tensor<f32>
  } {limit = 5 : i64} : tensor<f32> -> tensor<f32>
  return %0 : tensor<f32>
}
