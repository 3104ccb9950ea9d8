// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in float32 8 -2.5 -0.5 -0.0 0.5 1.5 7.25 inf nan
// out float32 8 -3.0 -1.0 -0.0 1.0 2.0 7.0 inf nan
// out float32 8 -2.0 -0.0 -0.0 0.0 2.0 7.0 inf nan
// out float32 8 -3.0 -1.0 -0.0 0.0 1.0 7.0 inf nan
// out float32 8 -2.0 -0.0 -0.0 1.0 2.0 8.0 inf nan
// out float32 8 -2.0 -0.0 -0.0 0.0 1.0 7.0 inf nan
// out float32 8 nan -0.5 -0.0 0.5 0.0 nan nan nan
// out float32 8 -2.5 -0.5 -0.0 0.5 1.5 7.25 inf nan
// out float32 8 -1.0 -1.0 -0.0 1.0 1.0 1.0 1.0 nan
// out float32 8 -1.0 -0.5 -0.0 0.5 1.0 1.0 1.0 nan
// out bool 8 1 1 1 1 1 1 0 0
// out float32 8 -2.5 -0.5 -0.0 0.5 1.5 7.25 3.4028234663852886e+38 0.0
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xf32>) -> (tensor<8xf32> {jax.result_info = "result[0]"}, tensor<8xf32> {jax.result_info = "result[1]"}, tensor<8xf32> {jax.result_info = "result[2]"}, tensor<8xf32> {jax.result_info = "result[3]"}, tensor<8xf32> {jax.result_info = "result[4]"}, tensor<8xf32> {jax.result_info = "result[5]"}, tensor<8xf32> {jax.result_info = "result[6]"}, tensor<8xf32> {jax.result_info = "result[7]"}, tensor<8xf32> {jax.result_info = "result[8]"}, tensor<8xi1> {jax.result_info = "result[9]"}, tensor<8xf32> {jax.result_info = "result[10]"}) {
    %0 = stablehlo.round_nearest_afz %arg0 : tensor<8xf32>
    %1 = call @round(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = stablehlo.floor %arg0 : tensor<8xf32>
    %3 = stablehlo.ceil %arg0 : tensor<8xf32>
    %4 = call @trunc(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
    %5 = stablehlo.reverse %arg0, dims = [0] : tensor<8xf32>
    %6 = stablehlo.remainder %arg0, %5 : tensor<8xf32>
    %7 = stablehlo.reduce_precision %arg0, format = e8m7 : tensor<8xf32>
    %8 = stablehlo.sign %arg0 : tensor<8xf32>
    %cst = stablehlo.constant dense<-1.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %10 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %11 = stablehlo.clamp %9, %arg0, %10 : tensor<8xf32>
    %12 = stablehlo.is_finite %arg0 : (tensor<8xf32>) -> tensor<8xi1>
    %13 = call @nan_to_num(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
    return %0, %1, %2, %3, %4, %6, %7, %8, %11, %12, %13 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xi1>, tensor<8xf32>
  }
  func.func private @round(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.round_nearest_even %arg0 : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @trunc(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %1 = stablehlo.compare LT, %arg0, %0, FLOAT : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
    %2 = stablehlo.ceil %arg0 : tensor<8xf32>
    %3 = stablehlo.floor %arg0 : tensor<8xf32>
    %4 = call @_where(%1, %2, %3) : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %4 : tensor<8xf32>
  }
  func.func private @_where(%arg0: tensor<8xi1>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<8xi1>, tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @nan_to_num(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.compare NE, %arg0, %arg0, FLOAT : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = call @_where_0(%0, %cst, %arg0) : (tensor<8xi1>, tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
    %cst_0 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %3 = stablehlo.compare EQ, %1, %2, FLOAT : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
    %cst_1 = stablehlo.constant dense<3.40282347E+38> : tensor<f32>
    %4 = call @_where_0(%3, %cst_1, %1) : (tensor<8xi1>, tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %6 = stablehlo.compare EQ, %4, %5, FLOAT : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
    %cst_3 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %7 = call @_where_0(%6, %cst_3, %4) : (tensor<8xi1>, tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
    return %7 : tensor<8xf32>
  }
  func.func private @_where_0(%arg0: tensor<8xi1>, %arg1: tensor<f32>, %arg2: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %1 = stablehlo.select %arg0, %0, %arg2 : tensor<8xi1>, tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
