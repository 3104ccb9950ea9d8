// SPDX-License-Identifier: Apache-2.0
func.func @f(%p: tensor<2x4x4x4xf32>) {
  %0 = tessera.avg_pool2d_grad %p {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]} : tensor<2x4x4x4xf32> -> tensor<2x8x9xf32>
  return
}
