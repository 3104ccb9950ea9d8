// SPDX-License-Identifier: Apache-2.0
func.func @f(%p: tensor<4xf32>) {
  %0 = tessera.optimizer.shard %p {mesh = [1, 2]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
