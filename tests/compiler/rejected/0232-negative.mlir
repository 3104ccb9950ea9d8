// SPDX-License-Identifier: Apache-2.0
// run: -tessera-bind-dims
module attributes {tessera.dim_sizes = {S = 2}} {
  func.func @f(%x: tensor<?x4xf32, #tessera.dims<S>> {tessera.name = "x"}) attributes {tessera.entry = "infer", tessera.dims = ["S"]} {
    %0 = tessera.slice %x {start = [3, 0], size = ["S - 3", 4]} : tensor<?x4xf32, #tessera.dims<S>> -> tensor<?x4xf32, #tessera.dims<"S - 3">>
    return
  }
}
