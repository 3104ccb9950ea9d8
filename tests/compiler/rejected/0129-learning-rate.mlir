// SPDX-License-Identifier: Apache-2.0
func.func @f(%p: tensor<4xf32>) {
  %0:2 = tessera.sgd %p, %p, %p {optimizer = #tessera.sgd<lr = -0.1, momentum = 0.9, weight_decay = 0.0>} : tensor<4xf32>
  return
}
