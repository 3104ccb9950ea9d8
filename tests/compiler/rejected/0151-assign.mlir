// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  "tessera.assign"(%a) : (tensor<4x6xf32>) -> ()
  return
}
