// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f(
// expand: 1024 %x{i}: tensor<2xf32> {tessera.name = "x{i}"},
%x: tensor<2xf32> {tessera.name = "x"}) attributes {tessera.entry = "infer"} {
  return
}
