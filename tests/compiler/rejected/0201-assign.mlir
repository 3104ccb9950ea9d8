// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2xf32>) {
  tessera.assign %a to "" : tensor<2xf32>
  return
}
