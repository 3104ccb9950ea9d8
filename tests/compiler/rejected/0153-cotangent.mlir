// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4xf32>, %g: tensor<4xf32>) {
  %y, %d = tessera.vjp %x, %g {
  ^bb0(%a: tensor<4xf32>):
    %0 = tessera.sum %a {axes = [0]} : tensor<4xf32> -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } : tensor<4xf32> -> (tensor<f32>, tensor<4xf32>)
  return
}
