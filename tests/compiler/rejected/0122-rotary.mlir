// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4x7xf32>) {
  %0 = tessera.rotary %x {axis = 0} : tensor<4x7xf32>
  return
}
