// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<2xf32>) {
  tessera.yield %x : tensor<2xf32>
}
