// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<5xf32>) -> tensor<4xf32> {
  return %a : tensor<5xf32>
}
