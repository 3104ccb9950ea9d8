// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tessera.effects.suspend {effects = ["io", "io"]} {
    %1 = tessera.exp %x : tensor<4xf32>
    tessera.yield %1 : tensor<4xf32>
  } : tensor<4xf32>
  return %0 : tensor<4xf32>
}
