// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<4xf32>, %n: tensor<i64>) {
  %y, %d = tessera.jvp %x, %n, %x, %n {
  ^bb0(%a: tensor<4xf32>, %k: tensor<i64>):
    %0 = tessera.ipow %a, %k : (tensor<4xf32>, tensor<i64>) -> tensor<4xf32>
    tessera.yield %0 : tensor<4xf32>
  } : (tensor<4xf32>, tensor<i64>, tensor<4xf32>, tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}
