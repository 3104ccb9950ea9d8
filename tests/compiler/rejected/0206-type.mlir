// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f(%x: tensor<2xi64> {tessera.name = "x"}) attributes {tessera.entry = "train"} {
  %0 = tessera.param "w" init = #tessera.constant<0.0> : tensor<2xf32>
  tessera.assign %x to "w" : tensor<2xi64>
  return
}
