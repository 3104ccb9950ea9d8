// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<6xf32>) {
  %0 = tessera.rotary %a {axis = 0} : tensor<6xf32>
  return
}
