// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<64x128xf32>, %b: tensor<64xf32>) {
  %0 = tessera.add %a, %b : (tensor<64x128xf32>, tensor<64xf32>) -> tensor<64x128xf32>
  return
}
