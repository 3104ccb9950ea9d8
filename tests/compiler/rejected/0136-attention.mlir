// SPDX-License-Identifier: Apache-2.0
func.func @f(%q: tensor<2x2x5x8xf32>, %k: tensor<2x2x7x8xf32>, %m: tensor<7x5xi1>) {
  %0 = tessera.attention %q, %k, %k, %m : (tensor<2x2x5x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>, tensor<7x5xi1>) -> tensor<2x2x5x8xf32>
  return
}
