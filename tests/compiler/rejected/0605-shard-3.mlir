// SPDX-License-Identifier: Apache-2.0
func.func @f(%p: tensor<4xf32>) {
  %0 = tessera.optimizer.shard %p {axis = "data"} : (tensor<4xf32>) -> tensor<5xf32>
  return
}
