// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in float32 4x3 2.75 6.625 2.625 -10.375 7.25 3.625 -4.25 4.625 2.875 2.375 0.25 4.375
// out int8 4x3 2 6 2 -10 7 3 -4 4 2 2 0 4
// out uint16 4x3 2 6 2 0 7 3 0 4 2 2 0 4
// out bool 4x3 1 1 1 1 1 1 1 1 1 1 1 1
// out float32 4x3 2.75 6.625 2.625 -10.375 7.25 3.625 -4.25 4.625 2.875 2.375 0.25 4.375
// out float64 4x3 2.75 6.625 2.625 -10.375 7.25 3.625 -4.25 4.625 2.875 2.375 0.25 4.375
// out int32 4x3 1076887552 1087635456 1076363264 -1054474240 1088946176 1080557568 -1064828928 1083441152 1077411840 1075314688 1048576000 1082916864
// out uint16 4x3x2 0 16432 0 16596 0 16424 0 49446 0 16616 0 16488 0 49288 0 16532 0 16440 0 16408 0 16000 0 16524
// out float32 4x3 2.75 6.625 2.625 -10.375 7.25 3.625 -4.25 4.625 2.875 2.375 0.25 4.375
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x3xf32>) -> (tensor<4x3xi8> {jax.result_info = "result[0]"}, tensor<4x3xui16> {jax.result_info = "result[1]"}, tensor<4x3xi1> {jax.result_info = "result[2]"}, tensor<4x3xf32> {jax.result_info = "result[3]"}, tensor<4x3xf64> {jax.result_info = "result[4]"}, tensor<4x3xi32> {jax.result_info = "result[5]"}, tensor<4x3x2xui16> {jax.result_info = "result[6]"}, tensor<4x3xf32> {jax.result_info = "result[7]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<4x3xf32>) -> tensor<4x3xi8>
    %1 = stablehlo.convert %arg0 : (tensor<4x3xf32>) -> tensor<4x3xui16>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
    %3 = stablehlo.compare NE, %arg0, %2, FLOAT : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>
    %4 = stablehlo.convert %3 : tensor<4x3xi1>
    %5 = stablehlo.convert %arg0 : (tensor<4x3xf32>) -> tensor<4x3xbf16>
    %6 = stablehlo.convert %5 : (tensor<4x3xbf16>) -> tensor<4x3xf32>
    %7 = stablehlo.convert %arg0 : (tensor<4x3xf32>) -> tensor<4x3xf16>
    %8 = stablehlo.convert %7 : (tensor<4x3xf16>) -> tensor<4x3xf64>
    %9 = stablehlo.bitcast_convert %arg0 : (tensor<4x3xf32>) -> tensor<4x3xi32>
    %10 = stablehlo.bitcast_convert %arg0 : (tensor<4x3xf32>) -> tensor<4x3x2xui16>
    %11 = stablehlo.bitcast_convert %arg0 : (tensor<4x3xf32>) -> tensor<4x3x4xui8>
    %12 = stablehlo.bitcast_convert %11 : (tensor<4x3x4xui8>) -> tensor<4x3xf32>
    return %0, %1, %4, %6, %8, %9, %10, %12 : tensor<4x3xi8>, tensor<4x3xui16>, tensor<4x3xi1>, tensor<4x3xf32>, tensor<4x3xf64>, tensor<4x3xi32>, tensor<4x3x2xui16>, tensor<4x3xf32>
  }
}
