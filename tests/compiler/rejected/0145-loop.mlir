// SPDX-License-Identifier: Apache-2.0
func.func @f(%i: tensor<i64>) {
  %1 = tessera.while %i {
  ^bb0(%n: tensor<i64>):
    tessera.yield %n, %n : tensor<i64>, tensor<i64>
  } do {
  ^bb0(%n: tensor<i64>):
    tessera.yield %n : tensor<i64>
  } {limit = 5 : i64} : tensor<i64> -> tensor<i64>
  return
}
