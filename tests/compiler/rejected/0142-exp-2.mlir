// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4611686018427387904x2xf32>) {
  %0 = tessera.exp %a : tensor<4611686018427387904x2xf32>
  return
}
