// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
func.func @f(%a: tensor<4xf32>) {
  %0 = arith.addf %a, %a : tensor<4xf32>
  return
}
