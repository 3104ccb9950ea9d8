// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<2x3xf32>) {
  %0 = "tessera.sum"(%x) {axes = [1], keepdims = true} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}
