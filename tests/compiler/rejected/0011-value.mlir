// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = tessera.exp %a : tensor<4x6xf32>
  %0 = tessera.log %a : tensor<4x6xf32>
  return
}
