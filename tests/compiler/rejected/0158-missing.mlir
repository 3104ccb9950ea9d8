// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4x4xui8>, %s: tensor<f32>) {
  %0 = tessera.dequant %x, %s : (tensor<4x4xui8>, tensor<f32>) -> tensor<4x8xf32>
  return
}
