// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4x64xf32>, %s: tensor<4x5xf8E8M0FNU>) {
  %0 = tessera.quant %x, %s : (tensor<4x64xf32>, tensor<4x5xf8E8M0FNU>) -> tensor<4x64xf8E4M3FN>
  return
}
