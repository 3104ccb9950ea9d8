// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f(%x: tensor<2xf32> {tessera.name = "x", tessera.data = "x"}) attributes {tessera.entry = "infer"} {
  return
}
