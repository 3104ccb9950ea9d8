// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = tessera.slice %a {start = [0, 2], size = [4, 3], stride = [1, 2]} : tensor<4x6xf32> -> tensor<4x3xf32>
  return
}
