// SPDX-License-Identifier: Apache-2.0
func.func @f(%loss: tensor<f32>) {
  tessera.minimize %loss {optimizer = #tessera.constant<0.1>} : tensor<f32>
  return
}
