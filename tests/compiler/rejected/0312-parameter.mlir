// SPDX-License-Identifier: Apache-2.0
// run: -tessera-autodiff
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<f32>
  %loss = tessera.custom_derivative %x {
  ^bb0(%a: tensor<f32>):
    %0 = tessera.mul %a, %w : tensor<f32>
    tessera.yield %0 : tensor<f32>
  } vjp {
  ^bb0(%a: tensor<f32>, %y: tensor<f32>, %g: tensor<f32>):
    tessera.yield %g : tensor<f32>
  } : tensor<f32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}
