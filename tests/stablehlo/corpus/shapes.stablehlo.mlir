// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in float32 4x3 0.34375 0.828125 0.328125 -1.296875 0.90625 0.453125 -0.53125 0.578125 0.359375 0.296875 0.03125 0.546875
// out float32 3x4 0.34375 -1.296875 -0.53125 0.296875 0.828125 0.90625 0.578125 0.03125 0.328125 0.453125 0.359375 0.546875
// out float32 2x6 0.34375 0.828125 0.328125 -1.296875 0.90625 0.453125 -0.53125 0.578125 0.359375 0.296875 0.03125 0.546875
// out float32 4x2 0.296875 0.546875 -0.53125 0.359375 -1.296875 0.453125 0.34375 0.328125
// out float32 4x6 0.34375 0.828125 0.328125 0.34375 0.828125 0.328125 -1.296875 0.90625 0.453125 -1.296875 0.90625 0.453125 -0.53125 0.578125 0.359375 -0.53125 0.578125 0.359375 0.296875 0.03125 0.546875 0.296875 0.03125 0.546875
// out float32 8x3 0.34375 0.828125 0.328125 -1.296875 0.90625 0.453125 -0.53125 0.578125 0.359375 0.296875 0.03125 0.546875 0.34375 0.828125 0.328125 -1.296875 0.90625 0.453125 -0.53125 0.578125 0.359375 0.296875 0.03125 0.546875
// out float32 4x2x3 0.34375 0.828125 0.328125 0.34375 0.828125 0.328125 -1.296875 0.90625 0.453125 -1.296875 0.90625 0.453125 -0.53125 0.578125 0.359375 -0.53125 0.578125 0.359375 0.296875 0.03125 0.546875 0.296875 0.03125 0.546875
// out float64 3x2 0.0 1.0 2.0 3.0 4.0 5.0
// out float32 4x3 0.296875 0.03125 0.546875 0.34375 0.828125 0.328125 -1.296875 0.90625 0.453125 -0.53125 0.578125 0.359375
// out float32 2x2 0.90625 0.453125 0.578125 0.359375
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x3xf32>) -> (tensor<3x4xf32> {jax.result_info = "result[0]"}, tensor<2x6xf32> {jax.result_info = "result[1]"}, tensor<4x2xf32> {jax.result_info = "result[2]"}, tensor<4x6xf32> {jax.result_info = "result[3]"}, tensor<8x3xf32> {jax.result_info = "result[4]"}, tensor<4x2x3xf32> {jax.result_info = "result[5]"}, tensor<3x2xf64> {jax.result_info = "result[6]"}, tensor<4x3xf32> {jax.result_info = "result[7]"}, tensor<2x2xf32> {jax.result_info = "result[8]"}) {
    %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
    %1 = stablehlo.reshape %arg0 : (tensor<4x3xf32>) -> tensor<2x6xf32>
    %2 = stablehlo.slice %arg0 [0:4, 0:3:2] : (tensor<4x3xf32>) -> tensor<4x2xf32>
    %3 = stablehlo.reverse %2, dims = [0] : tensor<4x2xf32>
    %4 = stablehlo.concatenate %arg0, %arg0, dim = 1 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x6xf32>
    %5 = stablehlo.reshape %arg0 : (tensor<4x3xf32>) -> tensor<1x4x1x3xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2, 3] : (tensor<1x4x1x3xf32>) -> tensor<2x4x1x3xf32>
    %7 = stablehlo.reshape %6 : (tensor<2x4x1x3xf32>) -> tensor<8x3xf32>
    %8 = stablehlo.broadcast_in_dim %arg0, dims = [0, 2] : (tensor<4x3xf32>) -> tensor<4x1x3xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<4x1x3xf32>) -> tensor<4x2x3xf32>
    %10 = stablehlo.iota dim = 0 : tensor<6xf64>
    %11 = stablehlo.reshape %10 : (tensor<6xf64>) -> tensor<3x2xf64>
    %12 = call @_roll_static(%arg0) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %13 = stablehlo.slice %arg0 [1:3, 1:3] : (tensor<4x3xf32>) -> tensor<2x2xf32>
    return %0, %1, %3, %4, %7, %9, %11, %12, %13 : tensor<3x4xf32>, tensor<2x6xf32>, tensor<4x2xf32>, tensor<4x6xf32>, tensor<8x3xf32>, tensor<4x2x3xf32>, tensor<3x2xf64>, tensor<4x3xf32>, tensor<2x2xf32>
  }
  func.func private @_roll_static(%arg0: tensor<4x3xf32>) -> tensor<4x3xf32> {
    %0 = stablehlo.slice %arg0 [3:4, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
    %1 = stablehlo.slice %arg0 [0:3, 0:3] : (tensor<4x3xf32>) -> tensor<3x3xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
    return %2 : tensor<4x3xf32>
  }
}
