// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4xf64>) {
  %0 = tessera.cast %x {rounding = "up"} : tensor<4xf64> -> tensor<4xf32>
  return
}
