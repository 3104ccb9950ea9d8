// SPDX-License-Identifier: Apache-2.0
// from: schedule
// The kernel of a convolution reads its operands where they lie.
func.func @f(%x: tensor<1x4x4x1xf32> {tessera.name = "x"}) -> (tensor<1x4x4x1xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %0 = tsched.call @k0_conv2d(%x) : (tensor<1x4x4x1xf32>) -> tensor<1x4x4x1xf32>
  return %0 : tensor<1x4x4x1xf32>
}
tsched.func @k0_conv2d(%x: tensor<1x4x4x1xf32>) -> tensor<1x4x4x1xf32> attributes {kind = "conv2d"} {
  %0 = tessera.constant dense<2.0> : tensor<1x1x1x1xf32>
  %1 = tessera.conv2d %x, %0 {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<1x4x4x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x4x4x1xf32>
  tsched.return %1 : tensor<1x4x4x1xf32>
}
