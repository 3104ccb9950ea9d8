// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<2x8x8x3xf32>, %f: tensor<?x3x3x4xf32, #tessera.dims<K>>) {
  %0 = tessera.conv2d %x, %f {dilation = [1, 1], padding = [0, 0, 0, 0], strides = [1, 1]} : (tensor<2x8x8x3xf32>, tensor<?x3x3x4xf32, #tessera.dims<K>>) -> tensor<2x?x6x4xf32>
  return
}
