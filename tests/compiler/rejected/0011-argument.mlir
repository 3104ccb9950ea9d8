// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4xf32>, %a: tensor<4xf32>) {
  %0 = tessera.exp %a : tensor<4xf32>
  return
}
