// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = tessera.rotary %a {axis = 0, base = 0.0} : tensor<4x6xf32>
  return
}
