// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify-lowered
func.func @f(%x: tensor<2xf32> {tessera.name = "x"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.mean %x {axes = [0]} : tensor<2xf32> -> tensor<f32>
  return
}
