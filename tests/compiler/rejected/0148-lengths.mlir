// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4x6xf32>, %y: tensor<5x6xf32>) {
  %0 = tessera.scan %x, %y {
  ^bb0(%a: tensor<6xf32>, %b: tensor<6xf32>):
    tessera.yield %a : tensor<6xf32>
  } {carried = 0 : i64} : (tensor<4x6xf32>, tensor<5x6xf32>) -> tensor<4x6xf32>
  return
}
