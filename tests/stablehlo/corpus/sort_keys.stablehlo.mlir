// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in int32 12 0 2 1 1 1 2 0 1 0 0 0 0
// in int32 12 0 1 0 0 0 0 2 2 1 1 0 1
// out int64 12 0 10 2 3 4 5 8 9 11 1 6 7
// out int32 12 0 0 0 0 0 0 1 1 1 1 2 2
// out int32 12 0 0 1 1 1 2 0 0 0 2 0 1
// out int32 12 0 0 0 0 0 0 2 2 2 2 4 4
// out int32 12 0 0 0 0 0 0 1 1 1 1 2 2
// out int32 12 0 2 1 1 0 1 0 0 0 2 1 0
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<12xi32>, %arg1: tensor<12xi32>) -> (tensor<12xi64> {jax.result_info = "result[0]"}, tensor<12xi32> {jax.result_info = "result[1][0]"}, tensor<12xi32> {jax.result_info = "result[1][1]"}, tensor<12xi32> {jax.result_info = "result[1][2]"}, tensor<12xi32> {jax.result_info = "result[2][0]"}, tensor<12xi32> {jax.result_info = "result[2][1]"}) {
    %0 = call @lexsort(%arg0, %arg1) : (tensor<12xi32>, tensor<12xi32>) -> tensor<12xi64>
    %c = stablehlo.constant dense<2> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<12xi32>
    %2 = stablehlo.multiply %arg0, %1 : tensor<12xi32>
    %3:3 = "stablehlo.sort"(%arg0, %arg1, %2) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg2: tensor<i32>, %arg3: tensor<i32>, %arg4: tensor<i32>, %arg5: tensor<i32>, %arg6: tensor<i32>, %arg7: tensor<i32>):
      %5 = stablehlo.compare LT, %arg4, %arg5, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.compare EQ, %arg2, %arg3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %8 = stablehlo.and %7, %5 : tensor<i1>
      %9 = stablehlo.or %6, %8 : tensor<i1>
      stablehlo.return %9 : tensor<i1>
    }) : (tensor<12xi32>, tensor<12xi32>, tensor<12xi32>) -> (tensor<12xi32>, tensor<12xi32>, tensor<12xi32>)
    %4:2 = "stablehlo.sort"(%arg0, %arg1) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg2: tensor<i32>, %arg3: tensor<i32>, %arg4: tensor<i32>, %arg5: tensor<i32>):
      %5 = stablehlo.compare LT, %arg2, %arg3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    }) : (tensor<12xi32>, tensor<12xi32>) -> (tensor<12xi32>, tensor<12xi32>)
    return %0, %3#0, %3#1, %3#2, %4#0, %4#1 : tensor<12xi64>, tensor<12xi32>, tensor<12xi32>, tensor<12xi32>, tensor<12xi32>, tensor<12xi32>
  }
  func.func private @lexsort(%arg0: tensor<12xi32>, %arg1: tensor<12xi32>) -> tensor<12xi64> {
    %0 = stablehlo.iota dim = 0 : tensor<12xi64>
    %1:3 = "stablehlo.sort"(%arg1, %arg0, %0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg2: tensor<i32>, %arg3: tensor<i32>, %arg4: tensor<i32>, %arg5: tensor<i32>, %arg6: tensor<i64>, %arg7: tensor<i64>):
      %2 = stablehlo.compare LT, %arg4, %arg5, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %3 = stablehlo.compare LT, %arg2, %arg3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %4 = stablehlo.compare EQ, %arg2, %arg3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %5 = stablehlo.and %4, %2 : tensor<i1>
      %6 = stablehlo.or %3, %5 : tensor<i1>
      stablehlo.return %6 : tensor<i1>
    }) : (tensor<12xi32>, tensor<12xi32>, tensor<12xi64>) -> (tensor<12xi32>, tensor<12xi32>, tensor<12xi64>)
    return %1#2 : tensor<12xi64>
  }
}
