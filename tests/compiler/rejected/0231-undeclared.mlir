// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f(%x: tensor<?x4xf32, #tessera.dims<batch>> {tessera.name = "x"}, %z: tensor<?xf32, #tessera.dims<batsh>> {tessera.name = "z"})
    attributes {tessera.entry = "infer", tessera.dims = ["batch"]} {
  return
}
