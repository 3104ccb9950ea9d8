// SPDX-License-Identifier: Apache-2.0
func.func @f(%l: tensor<4xf32>) {
  tessera.minimize %l {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<4xf32>
  return
}
