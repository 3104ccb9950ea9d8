// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tessera.exp %x : tensor<4x8xf32>
  %1 = tessera.sum %0 {axes = [1]} : tensor<4x8xf32> -> tensor<4xf32>
  %2 = tessera.reshape %1 : tensor<4xf32> -> tensor<4x1xf32>
  %3 = tessera.div %0, %2 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  tessera.verify.numerics %3 {stable, bounded = [0, 1]} : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}
