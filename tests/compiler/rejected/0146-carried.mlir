// SPDX-License-Identifier: Apache-2.0
func.func @f(%s: tensor<6xf32>, %x: tensor<4x6xf32>) {
  %0 = tessera.scan %s, %x {
  ^bb0(%carry: tensor<6xf32>, %row: tensor<4xf32>):
    tessera.yield %carry : tensor<6xf32>
  } {carried = 1 : i64} : (tensor<6xf32>, tensor<4x6xf32>) -> tensor<6xf32>
  return
}
