// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<3xf32>) {
  %0 = tessera.gelu %a {approximate = "sigmoid"} : tensor<3xf32>
  return
}
