// SPDX-License-Identifier: Apache-2.0
// from: schedule
// A name that is not defined before it is used.
func.func @f(%x: tensor<128x128xf32> {tessera.name = "x"}) -> (tensor<128x128xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %0 = tsched.call @k0(%x) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}
tsched.func @k0(%x: tensor<128x128xf32>) -> tensor<128x128xf32> attributes {kind = "matmul"} {
  %0 = tessera.matmul %x, %x : tensor<128x128xf32>
  tsched.return %0 : tensor<128x128xf32>
}
tsched.tile kernel @k0 {base = "wide", with = {rows = 4}}
