// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = "tessera.relu"(%a) : (tensor<4x6xf32>) -> tensor<6x4xf32>
  return
}
