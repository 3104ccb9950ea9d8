// SPDX-License-Identifier: Apache-2.0
func.func private @g(tensor<4xf32>)
func.func @f(%a: tensor<5xf32>) {
  call @g(%a) : (tensor<5xf32>) -> ()
  return
}
