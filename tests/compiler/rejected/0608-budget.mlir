// SPDX-License-Identifier: Apache-2.0
// run: -tessera-inline-regions -tessera-autodiff -tessera-insert-recompute
func.func @f() {
  %x = tessera.param "x" init = #tessera.constant<1.0> : tensor<2x2xf32>
  %a = tessera.add %x, %x : tensor<2x2xf32>
  %b = tessera.schedule.checkpoint {budget_bytes = 15} {
    %0 = tessera.tanh %a : tensor<2x2xf32>
    tessera.yield %0 : tensor<2x2xf32>
  } : tensor<2x2xf32>
  %loss = tessera.sum %b {axes = [0, 1]} : tensor<2x2xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}
