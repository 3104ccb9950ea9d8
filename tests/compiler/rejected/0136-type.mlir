// SPDX-License-Identifier: Apache-2.0
func.func @f(%q: tensor<2x2x5x8xf32>, %m: tensor<5x5xi64>) {
  %0 = tessera.attention %q, %q, %q, %m : (tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>, tensor<5x5xi64>) -> tensor<2x2x5x8xf32>
  return
}
