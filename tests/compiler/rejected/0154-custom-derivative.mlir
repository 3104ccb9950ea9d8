// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4xf32>) {
  %0 = tessera.custom_derivative %x {
  ^bb0(%a: tensor<4xf32>):
    %1 = tessera.floor %a : tensor<4xf32>
    tessera.yield %1 : tensor<4xf32>
  } : tensor<4xf32> -> tensor<4xf32>
  return
}
