// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4xf32>) {
  %0 = tessera.encode %x {format = "f4E2M1FN", rounding = "stochastic"} : tensor<4xf32> -> tensor<4xui8>
  return
}
