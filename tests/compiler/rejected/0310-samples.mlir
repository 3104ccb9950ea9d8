// SPDX-License-Identifier: Apache-2.0
// run: -tessera-streams -tessera-count-samples
func.func @f(%x: tensor<f32>) -> tensor<f32> attributes {tessera.entry = "infer"} {
  %0 = tessera.scan %x {
  ^bb0(%c: tensor<f32>):
    %1 = tessera.random_uniform : tensor<4096xf32>
    %2 = tessera.sum %1 {axes = [0]} : tensor<4096xf32> -> tensor<f32>
    tessera.yield %2 : tensor<f32>
  } {carried = 1 : i64, length = 281474976710656 : i64} : tensor<f32> -> tensor<f32>
  return %0 : tensor<f32>
}
