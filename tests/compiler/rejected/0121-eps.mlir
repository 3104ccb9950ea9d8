// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = tessera.rmsnorm_safe %a {axes = [1], eps = 0x7FF0000000000000 : f64} : tensor<4x6xf32> -> tensor<4x6xf32>
  return
}
