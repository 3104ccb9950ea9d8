// SPDX-License-Identifier: Apache-2.0
// run: -tessera-autodiff
func.func @f(%x: tensor<f32>, %t: tensor<f32>) -> tensor<f32> {
  %y, %d = tessera.jvp %x, %t {
  ^bb0(%a: tensor<f32>):
    %0 = tessera.loop "scan"(%a) {bodies = [@body], carried = 1 : i64, times = 3 : i64} : (tensor<f32>) -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } : tensor<f32> -> (tensor<f32>, tensor<f32>)
  return %d : tensor<f32>
}
func.func private @body(%c: tensor<f32>) -> tensor<f32> attributes {tessera.body = "f"} {
  %0 = tessera.tanh %c : tensor<f32>
  return %0 : tensor<f32>
}
