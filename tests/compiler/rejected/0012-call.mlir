// SPDX-License-Identifier: Apache-2.0
func.func @block(%a: tensor<4xf32>) {
  return
}
func.func @f(%a: tensor<4xf32>) {
  call @blok(%a) : (tensor<4xf32>) -> ()
  return
}
