// SPDX-License-Identifier: Apache-2.0
// run: -tessera-autodiff
func.func @f(%x: tensor<f32>, %t: tensor<f32>) -> tensor<f32> {
  %y, %d = tessera.jvp %x, %t {
  ^bb0(%a: tensor<f32>):
    %e = tessera.exp %a : tensor<f32>
    %0 = tessera.custom_derivative %a {
    ^bb0(%b: tensor<f32>):
      %1 = tessera.mul %b, %e : tensor<f32>
      tessera.yield %1 : tensor<f32>
    } jvp {
    ^bb0(%b: tensor<f32>, %c: tensor<f32>, %d0: tensor<f32>):
      tessera.yield %d0 : tensor<f32>
    } : tensor<f32> -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } : tensor<f32> -> (tensor<f32>, tensor<f32>)
  return %d : tensor<f32>
}
