// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<f32>, %t: !async.token) {
  %e = tessera_sr.leave "a"(%t, %x) : (!async.token, tensor<f32>) -> !async.token
  return
}
