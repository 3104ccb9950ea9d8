// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = tessera.clamp %a {low = 0.0} : tensor<4x6xf32>
  return
}
