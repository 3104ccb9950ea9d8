// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2xi1>) {
  %0 = tessera.add %a, %a : tensor<2xi1>
  return
}
