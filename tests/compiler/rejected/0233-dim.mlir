// SPDX-License-Identifier: Apache-2.0
// run: -tessera-bind-dims -tessera-copy-anchors
module attributes {tessera.dim_sizes = {N = {low = 1, high = 64}}} {
  func.func @f(%x: tensor<?x4xf32, #tessera.dims<N>> {tessera.name = "x"}) -> (tensor<4x?xf32, #tessera.dims<N>> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
    %0 = tessera.transpose %x {permutation = [1, 0]} : tensor<?x4xf32, #tessera.dims<N>> -> tensor<4x?xf32, #tessera.dims<N>>
    return %0 : tensor<4x?xf32, #tessera.dims<N>>
  }
}
