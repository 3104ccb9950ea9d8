// SPDX-License-Identifier: Apache-2.0
func.func @f(%l: tensor<i64>) {
  tessera.minimize %l {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<i64>
  return
}
