// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = tessera.rotary %a {axis = 0, offset = -1 : i64} : tensor<4x6xf32>
  return
}
