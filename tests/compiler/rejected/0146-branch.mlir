// SPDX-License-Identifier: Apache-2.0
func.func @f(%c: tensor<i1>, %x: tensor<4xf32>, %y: tensor<5xf32>) {
  %0 = tessera.if %c {
    tessera.yield %x : tensor<4xf32>
  } else {
    tessera.yield %y : tensor<5xf32>
  } : tensor<i1> -> tensor<4xf32>
  return
}
