// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f(%x: tensor<4x2xf32> {tessera.data = "a"}, %y: tensor<5xi64> {tessera.data = "b"}) attributes {tessera.entry = "train"} {
  return
}
