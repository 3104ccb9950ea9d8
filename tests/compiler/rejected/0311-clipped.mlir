// SPDX-License-Identifier: Apache-2.0
// run: -tessera-autodiff
func.func @f(%x: tensor<4xf32>, %t: tensor<4xf32>) -> tensor<4xf32> {
  %y, %d = tessera.jvp %x, %t {
  ^bb0(%a: tensor<4xf32>):
    %0 = tessera.custom_derivative %a {
    ^bb0(%b: tensor<4xf32>):
      tessera.yield %b : tensor<4xf32>
    } vjp {
    ^bb0(%b: tensor<4xf32>, %c: tensor<4xf32>, %g: tensor<4xf32>):
      %1 = tessera.clamp %g {low = -1.0, high = 1.0} : tensor<4xf32>
      tessera.yield %1 : tensor<4xf32>
    } : tensor<4xf32> -> tensor<4xf32>
    tessera.yield %0 : tensor<4xf32>
  } : tensor<4xf32> -> (tensor<4xf32>, tensor<4xf32>)
  return %d : tensor<4xf32>
}
