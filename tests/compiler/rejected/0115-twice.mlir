// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = tessera.mean %a {axes = [1, 1]} : tensor<4x6xf32> -> tensor<4xf32>
  return
}
