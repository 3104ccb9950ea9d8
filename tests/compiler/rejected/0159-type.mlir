// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4x64xf32>) {
  %0 = tessera.quant_scale %x {format = "i8"} : tensor<4x64xf32> -> tensor<4x2xf8E5M2>
  return
}
