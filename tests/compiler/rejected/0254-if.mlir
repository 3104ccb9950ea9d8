// SPDX-License-Identifier: Apache-2.0
// run: -inline -tessera-order-collectives
func.func private @share(%x: tensor<f32>) -> tensor<f32> {
  %0 = tessera_sr.all_reduce %x {axis = "data"} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @f(%x: tensor<8xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  %limit = tessera.constant dense<1.0> : tensor<f32>
  %0 = tessera.sum %x {axes = [0]} : tensor<8xf32> -> tensor<f32>
  %1 = tessera.compare gt %0, %limit : tensor<f32> -> tensor<i1>
  %2 = tessera.if %1 {
    %3 = func.call @share(%0) : (tensor<f32>) -> tensor<f32>
    tessera.yield %3 : tensor<f32>
  } else {
    tessera.yield %0 : tensor<f32>
  } : tensor<i1> -> tensor<f32>
  return %2 : tensor<f32>
}
