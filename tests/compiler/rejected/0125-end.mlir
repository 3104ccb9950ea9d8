// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = tessera.slice %a {start = [2, 0], size = [3, 6]} : tensor<4x6xf32> -> tensor<3x6xf32>
  return
}
