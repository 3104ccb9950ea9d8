// SPDX-License-Identifier: Apache-2.0
func.func @f(%e: tensor<4xi64>, %s: tensor<i64>) {
  %0 = tessera.philox %e, %s, %s {stream = 4294967296 : i64, draw = 0 : i64} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return
}
