// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4xui8>) {
  %0 = tessera.pad %a {low = [1], high = [0], value = -1.0} : tensor<4xui8> -> tensor<5xui8>
  return
}
