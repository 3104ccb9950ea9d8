// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<1x4x4x3xf32>, %f: tensor<3x3x2x8xf32>) {
  %0 = tessera.conv2d %x, %f {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<1x4x4x3xf32>, tensor<3x3x2x8xf32>) -> tensor<1x2x2x8xf32>
  return
}
