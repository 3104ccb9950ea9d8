// SPDX-License-Identifier: Apache-2.0
// Stopped the compiler.
func.func @g4(%v9: tensor<8x33xui8> {tessera.name = "v9"}) -> (tensor<8xui8> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %v10 = "tessera.reduce_min"(%v9) {axes = [1]} : (tensor<8x33xui8>) -> tensor<8xui8>
  "func.return"(%v10) : (tensor<8xui8>) -> ()
}
