// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f() attributes {tessera.entry = "train"} {
  %0 = tessera.param "w" init = #tessera.constant<0.0> : tensor<2xf32>
  tessera.assign %0 to "w" : tensor<2xf32>
  tessera.assign %0 to "w" : tensor<2xf32>
  return
}
