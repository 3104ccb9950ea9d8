// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<1x1x1x1x1x1x1x1x1xf32>) {
  %0 = tessera.exp %a : tensor<1x1x1x1x1x1x1x1x1xf32>
  return
}
