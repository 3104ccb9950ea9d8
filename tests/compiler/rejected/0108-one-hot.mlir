// SPDX-License-Identifier: Apache-2.0
func.func @f(%i: tensor<1x1x1x1x1x1x1x1xi64>) {
  %0 = tessera.one_hot %i {axis = 0} : tensor<1x1x1x1x1x1x1x1xi64> -> tensor<5x1x1x1x1x1x1x1x1xf32>
  return
}
