// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4x6xf32>, %s: tensor<6xf32>) {
  %0:3 = tessera.batch_norm_train %x, %s, %s, %s, %s {axis = 1, momentum = 1.5} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)
  return
}
