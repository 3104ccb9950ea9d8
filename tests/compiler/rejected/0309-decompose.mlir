// SPDX-License-Identifier: Apache-2.0
// run: -tessera-decompose
func.func @f(%loss: tensor<f32>) {
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}
