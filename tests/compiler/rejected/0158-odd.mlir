// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4x7xf32>, %s: tensor<f32>) {
  %0 = tessera.quant %x, %s {format = "i4"} : (tensor<4x7xf32>, tensor<f32>) -> tensor<4x3xui8>
  return
}
