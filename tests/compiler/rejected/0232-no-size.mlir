// SPDX-License-Identifier: Apache-2.0
// run: -tessera-bind-dims
module attributes {tessera.dim_sizes = {batsh = 4}} {
  func.func @f(%x: tensor<?x4xf32, #tessera.dims<"2*batch">> {tessera.name = "x"}) attributes {tessera.entry = "infer"} {
    return
  }
}
