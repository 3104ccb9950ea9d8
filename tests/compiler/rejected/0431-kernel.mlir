// SPDX-License-Identifier: Apache-2.0
// from: schedule
// A schedule names a kernel that does not exist.
func.func @f(%x: tensor<128x128xf32> {tessera.name = "x"}) -> (tensor<128x128xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %0 = tsched.call @k0(%x) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}
tsched.func @k0(%x: tensor<128x128xf32>) -> tensor<128x128xf32> attributes {kind = "matmul"} {
  %0 = tessera.matmul %x, %x : tensor<128x128xf32>
  tsched.return %0 : tensor<128x128xf32>
}
tsched.tile kernel @k1 chosen = [4, 16]
