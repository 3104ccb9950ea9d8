// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2x3xf32>) {
  %0 = tessera.mean %a {axes = [1, 1]} : tensor<2x3xf32> -> tensor<f32>
  return
}
