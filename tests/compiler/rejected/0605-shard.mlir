// SPDX-License-Identifier: Apache-2.0
func.func @f(%p: tensor<4xf32>) {
  %0 = tessera.optimizer.shard %p {axis = "data", policy = "zero4"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
