// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4294967296x4294967296xf32>) {
  %0 = tessera.exp %a : tensor<4294967296x4294967296xf32>
  return
}
