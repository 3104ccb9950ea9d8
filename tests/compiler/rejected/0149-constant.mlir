// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  %0 = tessera.constant sparse<0, 1.0> : tensor<2xf32>
  return
}
