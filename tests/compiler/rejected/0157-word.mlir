// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4xf32>) {
  %0 = tessera.cast %x {rounding = "nearest"} : tensor<4xf32> -> tensor<4xbf16>
  return
}
