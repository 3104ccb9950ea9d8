// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2x3xf32>) {
  %0 = tessera.reshape %a : tensor<2x3xf32> -> tensor<4x?xf32>
  return
}
