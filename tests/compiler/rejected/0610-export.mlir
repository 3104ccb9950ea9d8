// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<f32>, %t: !async.token) {
  %e = tessera_sr.export_begin "a"(%x, %t) : (tensor<f32>, !async.token) -> !async.token
  return
}
