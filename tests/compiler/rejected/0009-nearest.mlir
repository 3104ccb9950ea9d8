// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = tessera.softmx_safe %a {axis = 1} : tensor<4x6xf32>
  return
}
