// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4x6xf32>) {
  %0 = tessera.scan %x {
  ^bb0(%row: tensor<6xf32>):
    tessera.yield %row : tensor<6xf32>
  } {carried = 2 : i64} : tensor<4x6xf32> -> tensor<4x6xf32>
  return
}
