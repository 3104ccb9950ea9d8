// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in int32 3x3 1 5 5 -8 -5 -8 0 8 5
// in int32 3x3 7 7 3 8 2 2 4 4 3
// out int32 3x3 8 12 8 0 -3 -6 4 12 8
// out int32 3x3 0 0 1 -1 -3 -4 0 2 1
// out int32 3x3 1 5 2 0 1 0 0 0 2
// out int32 3x3 67 37 28 -128 -98 -58 84 36 31
// out int32 3x3 2 10 10 -16 -10 -16 0 16 10
// out int32 3x3 0 2 2 -4 -3 -4 0 4 2
// out int32 3x3 0 0 0 536870911 536870911 536870911 0 1 0
// out int32 3x3 -2 -6 -6 7 4 7 -1 -9 -6
// out int32 3x3 1 125 125 -512 -125 -512 0 512 125
// out int32 3x3 1 125 125 1 25 64 1 1 125
// out int32 3x3 31 29 29 0 0 0 32 28 29
// out int32 3x3 1 2 2 29 31 29 0 1 2
// out int32 - -8
// out int32 3 1 8 5
// out int64 3 147 32 48
// out int32 3 -7 -10 -8
// out int32 3x3 -1 -5 -5 8 5 8 0 -8 -5
// out int32 3x3 1 5 5 8 5 8 0 8 5
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x3xi32>, %arg1: tensor<3x3xi32>) -> (tensor<3x3xi32> {jax.result_info = "result[0]"}, tensor<3x3xi32> {jax.result_info = "result[1]"}, tensor<3x3xi32> {jax.result_info = "result[2]"}, tensor<3x3xi32> {jax.result_info = "result[3]"}, tensor<3x3xi32> {jax.result_info = "result[4]"}, tensor<3x3xi32> {jax.result_info = "result[5]"}, tensor<3x3xi32> {jax.result_info = "result[6]"}, tensor<3x3xi32> {jax.result_info = "result[7]"}, tensor<3x3xi32> {jax.result_info = "result[8]"}, tensor<3x3xi32> {jax.result_info = "result[9]"}, tensor<3x3xi32> {jax.result_info = "result[10]"}, tensor<3x3xi32> {jax.result_info = "result[11]"}, tensor<i32> {jax.result_info = "result[12]"}, tensor<3xi32> {jax.result_info = "result[13]"}, tensor<3xi64> {jax.result_info = "result[14]"}, tensor<3xi32> {jax.result_info = "result[15]"}, tensor<3x3xi32> {jax.result_info = "result[16]"}, tensor<3x3xi32> {jax.result_info = "result[17]"}) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<3x3xi32>
    %1 = call @floor_divide(%arg0, %arg1) : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
    %2 = call @remainder(%arg0, %arg1) : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
    %3 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
    %c = stablehlo.constant dense<1> : tensor<i32>
    %4 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %5 = stablehlo.shift_left %arg0, %4 : tensor<3x3xi32>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %7 = stablehlo.shift_right_arithmetic %arg0, %6 : tensor<3x3xi32>
    %c_1 = stablehlo.constant dense<3> : tensor<i32>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %9 = stablehlo.shift_right_logical %arg0, %8 : tensor<3x3xi32>
    %10 = stablehlo.not %arg0 : tensor<3x3xi32>
    %11 = stablehlo.multiply %arg0, %arg0 : tensor<3x3xi32>
    %12 = stablehlo.multiply %11, %arg0 : tensor<3x3xi32>
    %c_2 = stablehlo.constant dense<4> : tensor<i64>
    %13 = call @remainder_0(%arg1, %c_2) : (tensor<3x3xi32>, tensor<i64>) -> tensor<3x3xi32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %14 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %15 = stablehlo.compare EQ, %arg0, %14, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %16 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %17 = stablehlo.compare NE, %13, %16, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %18 = stablehlo.and %15, %17 : tensor<3x3xi1>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %c_6 = stablehlo.constant dense<1> : tensor<i32>
    %19 = call @_where_2(%18, %c_5, %c_6) : (tensor<3x3xi1>, tensor<i32>, tensor<i32>) -> tensor<3x3xi32>
    %c_7 = stablehlo.constant dense<1> : tensor<i32>
    %20 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %21 = stablehlo.and %13, %20 : tensor<3x3xi32>
    %22 = stablehlo.multiply %19, %arg0 : tensor<3x3xi32>
    %23 = call @_where_3(%21, %22, %19) : (tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
    %24 = stablehlo.multiply %arg0, %arg0 : tensor<3x3xi32>
    %c_8 = stablehlo.constant dense<1> : tensor<i32>
    %25 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %26 = stablehlo.shift_right_logical %13, %25 : tensor<3x3xi32>
    %c_9 = stablehlo.constant dense<1> : tensor<i32>
    %27 = stablehlo.broadcast_in_dim %c_9, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %28 = stablehlo.and %26, %27 : tensor<3x3xi32>
    %29 = stablehlo.multiply %23, %24 : tensor<3x3xi32>
    %30 = call @_where_3(%28, %29, %23) : (tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
    %31 = stablehlo.multiply %24, %24 : tensor<3x3xi32>
    %c_10 = stablehlo.constant dense<1> : tensor<i32>
    %32 = stablehlo.broadcast_in_dim %c_10, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %33 = stablehlo.shift_right_logical %26, %32 : tensor<3x3xi32>
    %c_11 = stablehlo.constant dense<1> : tensor<i32>
    %34 = stablehlo.broadcast_in_dim %c_11, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %35 = stablehlo.and %33, %34 : tensor<3x3xi32>
    %36 = stablehlo.multiply %30, %31 : tensor<3x3xi32>
    %37 = call @_where_3(%35, %36, %30) : (tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
    %38 = stablehlo.multiply %31, %31 : tensor<3x3xi32>
    %c_12 = stablehlo.constant dense<1> : tensor<i32>
    %39 = stablehlo.broadcast_in_dim %c_12, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %40 = stablehlo.shift_right_logical %33, %39 : tensor<3x3xi32>
    %c_13 = stablehlo.constant dense<1> : tensor<i32>
    %41 = stablehlo.broadcast_in_dim %c_13, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %42 = stablehlo.and %40, %41 : tensor<3x3xi32>
    %43 = stablehlo.multiply %37, %38 : tensor<3x3xi32>
    %44 = call @_where_3(%42, %43, %37) : (tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
    %45 = stablehlo.multiply %38, %38 : tensor<3x3xi32>
    %c_14 = stablehlo.constant dense<1> : tensor<i32>
    %46 = stablehlo.broadcast_in_dim %c_14, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %47 = stablehlo.shift_right_logical %40, %46 : tensor<3x3xi32>
    %c_15 = stablehlo.constant dense<1> : tensor<i32>
    %48 = stablehlo.broadcast_in_dim %c_15, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %49 = stablehlo.and %47, %48 : tensor<3x3xi32>
    %50 = stablehlo.multiply %44, %45 : tensor<3x3xi32>
    %51 = call @_where_3(%49, %50, %44) : (tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
    %52 = stablehlo.multiply %45, %45 : tensor<3x3xi32>
    %c_16 = stablehlo.constant dense<1> : tensor<i32>
    %53 = stablehlo.broadcast_in_dim %c_16, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %54 = stablehlo.shift_right_logical %47, %53 : tensor<3x3xi32>
    %c_17 = stablehlo.constant dense<1> : tensor<i32>
    %55 = stablehlo.broadcast_in_dim %c_17, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %56 = stablehlo.and %54, %55 : tensor<3x3xi32>
    %57 = stablehlo.multiply %51, %52 : tensor<3x3xi32>
    %58 = call @_where_3(%56, %57, %51) : (tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
    %59 = stablehlo.multiply %52, %52 : tensor<3x3xi32>
    %c_18 = stablehlo.constant dense<1> : tensor<i32>
    %60 = stablehlo.broadcast_in_dim %c_18, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %61 = stablehlo.shift_right_logical %54, %60 : tensor<3x3xi32>
    %62 = stablehlo.count_leading_zeros %arg0 : tensor<3x3xi32>
    %63 = stablehlo.popcnt %arg0 : tensor<3x3xi32>
    %c_19 = stablehlo.constant dense<2147483647> : tensor<i32>
    %64 = stablehlo.reduce(%arg0 init: %c_19) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<3x3xi32>, tensor<i32>) -> tensor<i32>
    %c_20 = stablehlo.constant dense<-2147483648> : tensor<i32>
    %65 = stablehlo.reduce(%arg0 init: %c_20) applies stablehlo.maximum across dimensions = [0] : (tensor<3x3xi32>, tensor<i32>) -> tensor<3xi32>
    %66 = stablehlo.convert %arg1 : (tensor<3x3xi32>) -> tensor<3x3xi64>
    %c_21 = stablehlo.constant dense<1> : tensor<i64>
    %67 = stablehlo.reduce(%66 init: %c_21) applies stablehlo.multiply across dimensions = [1] : (tensor<3x3xi64>, tensor<i64>) -> tensor<3xi64>
    %68 = call @reduce(%arg0) : (tensor<3x3xi32>) -> tensor<3xi32>
    %69 = stablehlo.negate %arg0 : tensor<3x3xi32>
    %70 = stablehlo.abs %arg0 : tensor<3x3xi32>
    return %0, %1, %2, %3, %5, %7, %9, %10, %12, %58, %62, %63, %64, %65, %67, %68, %69, %70 : tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>, tensor<3x3xi32>, tensor<i32>, tensor<3xi32>, tensor<3xi64>, tensor<3xi32>, tensor<3x3xi32>, tensor<3x3xi32>
  }
  func.func private @floor_divide(%arg0: tensor<3x3xi32>, %arg1: tensor<3x3xi32>) -> tensor<3x3xi32> {
    %0 = stablehlo.divide %arg0, %arg1 : tensor<3x3xi32>
    %1 = stablehlo.sign %arg0 : tensor<3x3xi32>
    %2 = stablehlo.sign %arg1 : tensor<3x3xi32>
    %3 = stablehlo.compare NE, %1, %2, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %4 = stablehlo.remainder %arg0, %arg1 : tensor<3x3xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %6 = stablehlo.compare NE, %4, %5, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %7 = stablehlo.and %3, %6 : tensor<3x3xi1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %8 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %9 = stablehlo.subtract %0, %8 : tensor<3x3xi32>
    %10 = call @_where(%7, %9, %0) : (tensor<3x3xi1>, tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
    return %10 : tensor<3x3xi32>
  }
  func.func private @_where(%arg0: tensor<3x3xi1>, %arg1: tensor<3x3xi32>, %arg2: tensor<3x3xi32>) -> tensor<3x3xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<3x3xi1>, tensor<3x3xi32>
    return %0 : tensor<3x3xi32>
  }
  func.func private @remainder(%arg0: tensor<3x3xi32>, %arg1: tensor<3x3xi32>) -> tensor<3x3xi32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %1 = stablehlo.compare EQ, %arg1, %0, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %3 = call @_where(%1, %2, %arg1) : (tensor<3x3xi1>, tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
    %4 = stablehlo.remainder %arg0, %3 : tensor<3x3xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %6 = stablehlo.compare NE, %4, %5, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %8 = stablehlo.compare LT, %4, %7, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %10 = stablehlo.compare LT, %3, %9, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %11 = stablehlo.compare NE, %8, %10, UNSIGNED : (tensor<3x3xi1>, tensor<3x3xi1>) -> tensor<3x3xi1>
    %12 = stablehlo.and %11, %6 : tensor<3x3xi1>
    %13 = stablehlo.add %4, %3 : tensor<3x3xi32>
    %14 = stablehlo.select %12, %13, %4 : tensor<3x3xi1>, tensor<3x3xi32>
    return %14 : tensor<3x3xi32>
  }
  func.func private @remainder_0(%arg0: tensor<3x3xi32>, %arg1: tensor<i64>) -> tensor<3x3xi32> {
    %0 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<i32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.compare EQ, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %2 = call @_where_1(%1, %c_0, %0) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %4 = stablehlo.remainder %arg0, %3 : tensor<3x3xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %6 = stablehlo.compare NE, %4, %5, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %8 = stablehlo.compare LT, %4, %7, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9 = stablehlo.compare LT, %2, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<i1>) -> tensor<3x3xi1>
    %11 = stablehlo.compare NE, %8, %10, UNSIGNED : (tensor<3x3xi1>, tensor<3x3xi1>) -> tensor<3x3xi1>
    %12 = stablehlo.and %11, %6 : tensor<3x3xi1>
    %13 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %14 = stablehlo.add %4, %13 : tensor<3x3xi32>
    %15 = stablehlo.select %12, %14, %4 : tensor<3x3xi1>, tensor<3x3xi32>
    return %15 : tensor<3x3xi32>
  }
  func.func private @_where_1(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
  func.func private @_where_2(%arg0: tensor<3x3xi1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<3x3xi32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %2 = stablehlo.select %arg0, %0, %1 : tensor<3x3xi1>, tensor<3x3xi32>
    return %2 : tensor<3x3xi32>
  }
  func.func private @_where_3(%arg0: tensor<3x3xi32>, %arg1: tensor<3x3xi32>, %arg2: tensor<3x3xi32>) -> tensor<3x3xi32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %1 = stablehlo.compare NE, %arg0, %0, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %2 = stablehlo.select %1, %arg1, %arg2 : tensor<3x3xi1>, tensor<3x3xi32>
    return %2 : tensor<3x3xi32>
  }
  func.func private @reduce(%arg0: tensor<3x3xi32>) -> tensor<3xi32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.xor across dimensions = [0] : (tensor<3x3xi32>, tensor<i32>) -> tensor<3xi32>
    return %0 : tensor<3xi32>
  }
}
