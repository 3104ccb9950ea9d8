// SPDX-License-Identifier: Apache-2.0
// run: -tessera-order-collectives
// Both branches sum, but not over the same axis.
func.func @f(%x: tensor<f32> {tessera.name = "x"}, %c: tensor<i1> {tessera.name = "c"}) -> (tensor<f32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %0 = tessera.if %c {
    %1 = tessera_sr.all_reduce %x {axis = "data"} : (tensor<f32>) -> tensor<f32>
    %2 = tessera_sr.all_reduce %1 {axis = "data"} : (tensor<f32>) -> tensor<f32>
    tessera.yield %2 : tensor<f32>
  } else {
    %1 = tessera_sr.all_reduce %x {axis = "data"} : (tensor<f32>) -> tensor<f32>
    %2 = tessera_sr.all_reduce %1 {axis = "model"} : (tensor<f32>) -> tensor<f32>
    tessera.yield %2 : tensor<f32>
  } : tensor<i1> -> tensor<f32>
  return %0 : tensor<f32>
}
