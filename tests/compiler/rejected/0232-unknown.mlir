// SPDX-License-Identifier: Apache-2.0
// run: -tessera-bind-dims
module attributes {tessera.dim_sizes = {batc = 4, batch = 8}} {
  func.func @f(%x: tensor<?x4xf32, #tessera.dims<batch>> {tessera.name = "x"}) attributes {tessera.entry = "infer", tessera.dims = ["batch"]} {
    return
  }
}
