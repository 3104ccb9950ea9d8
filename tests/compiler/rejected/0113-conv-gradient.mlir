// SPDX-License-Identifier: Apache-2.0
func.func @f(%f: tensor<3x3x2x6xf32>, %g: tensor<2x4x5x6xf32>) {
  %0 = tessera.conv2d_grad_input %f, %g {strides = [2, 2], padding = [1, 0, 1, 1], dilation = [1, 1], groups = 2 : i64} : (tensor<3x3x2x6xf32>, tensor<2x4x5x6xf32>) -> tensor<2x8x9xf32>
  return
}
