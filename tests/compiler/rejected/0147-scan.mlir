// SPDX-License-Identifier: Apache-2.0
func.func @f(%s: tensor<4xf32>) {
  %0 = tessera.scan %s {
  ^bb0(%c: tensor<4xf32>):
    tessera.yield %c : tensor<4xf32>
  } {carried = 1 : i64} : tensor<4xf32> -> tensor<4xf32>
  return
}
