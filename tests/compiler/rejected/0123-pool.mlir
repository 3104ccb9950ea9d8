// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<1x4x4x3xf32>) {
  %0 = tessera.max_pool2d %x {window = [5, 5], strides = [1, 1], padding = [0, 0, 0, 0]} : tensor<1x4x4x3xf32> -> tensor<1x1x1x3xf32>
  return
}
