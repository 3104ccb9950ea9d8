// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f(%x: tensor<?x4xf32, #tessera.dims<N>> {tessera.name = "x"})
    attributes {tessera.entry = "infer", tessera.dims = ["N", "N"]} {
  return
}
