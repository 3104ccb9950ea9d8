// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = tessera.broadcast %a : tensor<4x6xf32> -> tensor<6xf32>
  return
}
