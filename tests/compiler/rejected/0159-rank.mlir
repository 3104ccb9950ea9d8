// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4x64xf32>, %s: tensor<64xf32>) {
  %0 = tessera.quant %x, %s : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xi8>
  return
}
