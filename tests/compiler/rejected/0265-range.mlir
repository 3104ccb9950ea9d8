// SPDX-License-Identifier: Apache-2.0
// run: -tessera-constraints
module attributes {tessera.dim_sizes = {N = {low = 1 : i64, high = 64 : i64}}} {
  func.func @f(%x: tensor<?x8xf32, #tessera.dims<N>> {tessera.name = "x"}) -> (tensor<?x8xf32, #tessera.dims<N>> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.dims = ["N"], tessera.constraints = ["N % 8 == 0"]} {
    return %x : tensor<?x8xf32, #tessera.dims<N>>
  }
}
