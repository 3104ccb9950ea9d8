// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = tessera.exp %1 : tensor<4x6xf32>
  %1 = tessera.exp %a : tensor<4x6xf32>
  return
}
