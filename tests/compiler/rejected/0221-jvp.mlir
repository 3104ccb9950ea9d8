// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f(%x: tensor<f32> {tessera.name = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<f32>
  %y, %d = tessera.jvp %x, %w {
  ^bb0(%a: tensor<f32>):
    %0 = tessera.mul %a, %w : tensor<f32>
    tessera.assign %0 to "w" : tensor<f32>
    tessera.yield %0 : tensor<f32>
  } : tensor<f32> -> (tensor<f32>, tensor<f32>)
  return %d : tensor<f32>
}
