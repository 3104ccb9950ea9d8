// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2x3xf32>) {
  %0 = tessera.broadcast %a : tensor<2x3xf32> -> tensor<5x4x3xf32>
  return
}
