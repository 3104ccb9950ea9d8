// SPDX-License-Identifier: Apache-2.0
func.func @f(%c: tensor<2xi1>, %x: tensor<4xf32>) {
  %0 = tessera.if %c {
    tessera.yield %x : tensor<4xf32>
  } else {
    tessera.yield %x : tensor<4xf32>
  } : tensor<2xi1> -> tensor<4xf32>
  return
}
