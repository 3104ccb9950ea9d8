// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = tessera.reduce_max %a {axes = [1, 0]} : tensor<4x6xf32> -> tensor<f32>
  return
}
