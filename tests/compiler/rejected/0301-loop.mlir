// SPDX-License-Identifier: Apache-2.0
// run: -tessera-autodiff
func.func @f() -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<f32>
  %loss = tessera.loop "scan"(%w) {bodies = [@body], carried = 1 : i64, times = 3 : i64} : (tensor<f32>) -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}
func.func private @body(%c: tensor<f32>) -> tensor<f32> attributes {tessera.body = "f"} {
  %0 = tessera.tanh %c : tensor<f32>
  return %0 : tensor<f32>
}
