// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2x3xf32>) {
  %0 = tessera.transpose %a {permutation = [0, 0]} : tensor<2x3xf32> -> tensor<2x2xf32>
  return
}
