// SPDX-License-Identifier: Apache-2.0
// run: -tessera-bind-dims -tessera-copy-anchors
module attributes {tessera.dim_sizes = {N = {low = 1, high = 64}}} {
  func.func @f(%x: tensor<?x4xf32, #tessera.dims<N>> {tessera.name = "x"}) -> (tensor<?xf32, #tessera.dims<N>> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
    %0 = tessera.iota {axis = 0} : tensor<?xf32, #tessera.dims<N>>
    return %0 : tensor<?xf32, #tessera.dims<N>>
  }
}
