// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<3xf32>) {
  %0 = tessera_sr.all_gather %x, %x {axis = "data"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<5xf32>
  return
}
