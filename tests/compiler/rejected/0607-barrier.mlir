// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  %0 = tessera_sr.barrier %x, %y : (tensor<4xf32>, tensor<5xf32>) -> tensor<5xf32>
  return
}
