// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func private @keep(%x: tensor<f32>) -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<f32>
  %y = tessera.mul %x, %w : tensor<f32>
  tessera.assign %y to "w" : tensor<f32>
  return %y : tensor<f32>
}
func.func private @step(%x: tensor<f32>) -> tensor<f32> {
  %y = func.call @keep(%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
func.func @f(%x: tensor<f32> {tessera.name = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  %y = tessera.scan %x {
  ^bb0(%a: tensor<f32>):
    %0 = func.call @step(%a) : (tensor<f32>) -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } {carried = 1 : i64, length = 300 : i64} : tensor<f32> -> tensor<f32>
  return %y : tensor<f32>
}
