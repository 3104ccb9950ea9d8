// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = "tessera.argmax"(%a) <{axis = 1.0 : f64}> : (tensor<4x6xf32>) -> tensor<4xi64>
  return
}
