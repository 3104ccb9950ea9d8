// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<f32>) {
  %0 = tessera.scan %x {
  ^bb0(%a: tensor<f32>):
    tessera.yield %a : tensor<f32>
  } {carried = 0 : i64} : tensor<f32> -> tensor<4xf32>
  return
}
