// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4xf32>) {
  %a = tessera_sr.checkpoint {
    tessera.yield %x : tensor<4xf32>
  } : tensor<5xf32>
  return
}
