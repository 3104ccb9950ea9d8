// SPDX-License-Identifier: Apache-2.0
// run: -tessera-constraints
func.func @f(%x: tensor<?x8xf32, #tessera.dims<N>> {tessera.name = "x", tessera.dims = ["M", "D"]}) -> (tensor<?x8xf32, #tessera.dims<N>> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
  return %x : tensor<?x8xf32, #tessera.dims<N>>
}
