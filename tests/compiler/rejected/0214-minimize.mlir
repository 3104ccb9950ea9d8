// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f(%x: tensor<2xf32> {tessera.name = "x"}) attributes {tessera.entry = "eval"} {
  %0 = tessera.sum %x {axes = [0]} : tensor<2xf32> -> tensor<f32>
  tessera.minimize %0 {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}
