// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = tessera.slice %a {start = [0, 0], size = [2, 2]} : tensor<4x6xf32> -> tensor<2x3xf32>
  return
}
