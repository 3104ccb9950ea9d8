// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in float32 4x3 0.34375 0.828125 0.328125 -1.296875 0.90625 0.453125 -0.53125 0.578125 0.359375 0.296875 0.03125 0.546875
// in int32 - 2
// out float32 2x2 0.578125 0.359375 0.03125 0.546875
// out float32 4x3 0.34375 0.828125 0.328125 -1.296875 0.90625 0.453125 0.34375 0.828125 0.328125 -1.296875 0.90625 0.453125
// out float32 4x3 0.34375 0.828125 0.328125 -1.296875 0.90625 0.453125 -0.53125 0.34375 0.828125 0.296875 -1.296875 0.90625
// out float32 3 -0.53125 0.578125 0.359375
// out float32 2x3 -0.53125 0.578125 0.359375 0.296875 0.03125 0.546875
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x3xf32>, %arg1: tensor<i32>) -> (tensor<2x2xf32> {jax.result_info = "result[0]"}, tensor<4x3xf32> {jax.result_info = "result[1]"}, tensor<4x3xf32> {jax.result_info = "result[2]"}, tensor<3xf32> {jax.result_info = "result[3]"}, tensor<2x3xf32> {jax.result_info = "result[4]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<4> : tensor<i32>
    %1 = stablehlo.add %arg1, %c_0 : tensor<i32>
    %2 = stablehlo.select %0, %1, %arg1 : tensor<i1>, tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.compare LT, %arg1, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_2 = stablehlo.constant dense<3> : tensor<i32>
    %4 = stablehlo.add %arg1, %c_2 : tensor<i32>
    %5 = stablehlo.select %3, %4, %arg1 : tensor<i1>, tensor<i32>
    %6 = stablehlo.dynamic_slice %arg0, %2, %5, sizes = [2, 2] : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
    %7 = stablehlo.slice %arg0 [0:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %8 = stablehlo.compare LT, %arg1, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_4 = stablehlo.constant dense<4> : tensor<i32>
    %9 = stablehlo.add %arg1, %c_4 : tensor<i32>
    %10 = stablehlo.select %8, %9, %arg1 : tensor<i1>, tensor<i32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %11 = stablehlo.dynamic_update_slice %arg0, %7, %10, %c_5 : (tensor<4x3xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
    %12 = stablehlo.slice %arg0 [0:2, 0:2] : (tensor<4x3xf32>) -> tensor<2x2xf32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %13 = stablehlo.compare LT, %arg1, %c_6, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_7 = stablehlo.constant dense<4> : tensor<i32>
    %14 = stablehlo.add %arg1, %c_7 : tensor<i32>
    %15 = stablehlo.select %13, %14, %arg1 : tensor<i1>, tensor<i32>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %16 = stablehlo.compare LT, %arg1, %c_8, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_9 = stablehlo.constant dense<3> : tensor<i32>
    %17 = stablehlo.add %arg1, %c_9 : tensor<i32>
    %18 = stablehlo.select %16, %17, %arg1 : tensor<i1>, tensor<i32>
    %19 = stablehlo.dynamic_update_slice %arg0, %12, %15, %18 : (tensor<4x3xf32>, tensor<2x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
    %c_10 = stablehlo.constant dense<0> : tensor<i32>
    %20 = stablehlo.compare LT, %arg1, %c_10, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_11 = stablehlo.constant dense<4> : tensor<i32>
    %21 = stablehlo.add %arg1, %c_11 : tensor<i32>
    %22 = stablehlo.select %20, %21, %arg1 : tensor<i1>, tensor<i32>
    %c_12 = stablehlo.constant dense<0> : tensor<i32>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %23 = stablehlo.compare LT, %c_12, %c_13, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_14 = stablehlo.constant dense<0> : tensor<i32>
    %c_15 = stablehlo.constant dense<3> : tensor<i32>
    %24 = stablehlo.add %c_14, %c_15 : tensor<i32>
    %c_16 = stablehlo.constant dense<0> : tensor<i32>
    %25 = stablehlo.select %23, %24, %c_16 : tensor<i1>, tensor<i32>
    %26 = stablehlo.dynamic_slice %arg0, %22, %25, sizes = [1, 3] : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %27 = stablehlo.reshape %26 : (tensor<1x3xf32>) -> tensor<3xf32>
    %c_17 = stablehlo.constant dense<9> : tensor<i32>
    %28 = stablehlo.multiply %arg1, %c_17 : tensor<i32>
    %29 = stablehlo.negate %arg1 : tensor<i32>
    %c_18 = stablehlo.constant dense<0> : tensor<i32>
    %30 = stablehlo.compare LT, %28, %c_18, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_19 = stablehlo.constant dense<4> : tensor<i32>
    %31 = stablehlo.add %28, %c_19 : tensor<i32>
    %32 = stablehlo.select %30, %31, %28 : tensor<i1>, tensor<i32>
    %c_20 = stablehlo.constant dense<0> : tensor<i32>
    %33 = stablehlo.compare LT, %29, %c_20, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_21 = stablehlo.constant dense<3> : tensor<i32>
    %34 = stablehlo.add %29, %c_21 : tensor<i32>
    %35 = stablehlo.select %33, %34, %29 : tensor<i1>, tensor<i32>
    %36 = stablehlo.dynamic_slice %arg0, %32, %35, sizes = [2, 3] : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    return %6, %11, %19, %27, %36 : tensor<2x2xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<2x3xf32>
  }
}
