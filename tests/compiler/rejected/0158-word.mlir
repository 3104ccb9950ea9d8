// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4xui8>) {
  %0 = tessera.decode %x {format = "e4m3"} : tensor<4xui8> -> tensor<4xf32>
  return
}
