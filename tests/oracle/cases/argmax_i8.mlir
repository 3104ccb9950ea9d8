// SPDX-License-Identifier: Apache-2.0
// Compared as if it were unsigned.
func.func @g10(%v9: tensor<8x48xi8> {tessera.name = "v9"}) -> (tensor<48xi64> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %v13 = "tessera.argmax"(%v9) {axis = 0 : i64} : (tensor<8x48xi8>) -> tensor<48xi64>
  "func.return"(%v13) : (tensor<48xi64>) -> ()
}
