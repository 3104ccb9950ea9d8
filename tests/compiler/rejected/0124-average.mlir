// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<1x4x4x3xf32>) {
  %0 = tessera.avg_pool2d %x {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 3]} : tensor<1x4x4x3xf32> -> tensor<1x2x3x3xf32>
  return
}
