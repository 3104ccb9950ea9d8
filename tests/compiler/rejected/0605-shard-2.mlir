// SPDX-License-Identifier: Apache-2.0
func.func @f(%p: tensor<4xf32>) {
  tessera.optimizer.shard %p {axis = "data"} : (tensor<4xf32>) -> ()
  return
}
