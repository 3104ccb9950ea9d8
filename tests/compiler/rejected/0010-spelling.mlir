// SPDX-License-Identifier: Apache-2.0
func.func @f(%left: tensor<4xf32>, %right: tensor<4xf32>) {
  %0 = tessera.add %left, %rigth : tensor<4xf32>
  return
}
