// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  tessera.verify.numerics %x {bounded = [100, -100]} : tensor<4xf32>
  return %x : tensor<4xf32>
}
