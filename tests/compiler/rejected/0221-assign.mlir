// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f(%c: tensor<i1> {tessera.name = "c"}) attributes {tessera.entry = "train"} {
  %p = tessera.param "w" init = #tessera.constant<0.0> : tensor<4xf32>
  %0 = tessera.if %c {
    tessera.assign %p to "w" : tensor<4xf32>
    tessera.yield %p : tensor<4xf32>
  } else {
    tessera.yield %p : tensor<4xf32>
  } : tensor<i1> -> tensor<4xf32>
  return
}
