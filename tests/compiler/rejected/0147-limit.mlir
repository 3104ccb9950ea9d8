// SPDX-License-Identifier: Apache-2.0
func.func @f(%i: tensor<i64>) {
  %1 = tessera.while %i {
  ^bb0(%n: tensor<i64>):
    %k = tessera.compare lt %n, %n : tensor<i64> -> tensor<i1>
    tessera.yield %k : tensor<i1>
  } do {
  ^bb0(%n: tensor<i64>):
    tessera.yield %n : tensor<i64>
  } {limit = -1 : i64} : tensor<i64> -> tensor<i64>
  return
}
