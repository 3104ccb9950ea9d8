// SPDX-License-Identifier: Apache-2.0
func.func @f(%q: tensor<2x?x5x8xf32, #tessera.dims<H>>, %k: tensor<2x2x6x8xf32>) {
  %0 = tessera.attention %q, %k, %k : (tensor<2x?x5x8xf32, #tessera.dims<H>>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>) -> tensor<2x?x5x8xf32, #tessera.dims<H>>
  return
}
