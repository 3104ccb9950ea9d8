// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f(%x: tensor<2xf32> {tessera.name = "x"}) attributes {tessera.entry = "train"} {
  %0 = tessera.param "weight" init = #tessera.constant<0.0> : tensor<2xf32>
  tessera.assign %x to "wieght" : tensor<2xf32>
  return
}
