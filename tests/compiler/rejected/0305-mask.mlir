// SPDX-License-Identifier: Apache-2.0
// run: -tessera-autodiff
func.func @f(%q: tensor<2x2x5x8xf32> {tessera.data = "x"}) attributes {tessera.entry = "train"} {
  %m = tessera.param "m" init = #tessera.constant<0.5> : tensor<5x5xf32>
  %0 = tessera.attention %q, %q, %q, %m : tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>, tensor<5x5xf32> -> tensor<2x2x5x8xf32>
  %1 = tessera.sum %0 {axes = [0, 1, 2, 3]} : tensor<2x2x5x8xf32> -> tensor<f32>
  tessera.minimize %1 {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}
