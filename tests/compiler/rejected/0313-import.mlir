// SPDX-License-Identifier: Apache-2.0
// run: -tessera-effects
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "g"}) attributes {tessera.entry = "infer"} {
  %y, %g = tessera.jvp %x, %x {
  ^bb0(%a: tensor<4xf32>):
    %token, %v = tessera.target.import "stage" : !tessera.res.token, tensor<4xf32>
    %0 = tessera.mul %a, %v : tensor<4xf32>
    tessera.yield %0 : tensor<4xf32>
  } : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %g : tensor<4xf32>
}
