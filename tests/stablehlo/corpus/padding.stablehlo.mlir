// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in float32 4x3 0.34375 0.828125 0.328125 -1.296875 0.90625 0.453125 -0.53125 0.578125 0.359375 0.296875 0.03125 0.546875
// in int32 3x3 -1 6 -1 -2 2 -8 7 7 -9
// in float32 - 2.5
// out float32 10x3 2.5 2.5 2.5 0.828125 0.328125 2.5 2.5 2.5 2.5 0.90625 0.453125 2.5 2.5 2.5 2.5 0.578125 0.359375 2.5 2.5 2.5 2.5 0.03125 0.546875 2.5 2.5 2.5 2.5 2.5 2.5 2.5
// out float32 10x5 1.0 0.34375 0.828125 0.328125 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 -1.296875 0.90625 0.453125 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 -0.53125 0.578125 0.359375 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0 0.296875 0.03125 0.546875 1.0
// out int32 7x4 7 7 7 7 -1 6 -1 7 7 7 7 7 7 7 7 7 -2 2 -8 7 7 7 7 7 7 7 7 7
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x3xf32>, %arg1: tensor<3x3xi32>, %arg2: tensor<f32>) -> (tensor<10x3xf32> {jax.result_info = "result[0]"}, tensor<10x5xf32> {jax.result_info = "result[1]"}, tensor<7x4xi32> {jax.result_info = "result[2]"}) {
    %0 = stablehlo.pad %arg0, %arg2, low = [1, -1], high = [2, 1], interior = [1, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<10x3xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %1 = stablehlo.pad %arg0, %cst, low = [0, 1], high = [0, 1], interior = [2, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<10x5xf32>
    %c = stablehlo.constant dense<7> : tensor<i32>
    %2 = stablehlo.pad %arg1, %c, low = [1, 0], high = [-1, 1], interior = [2, 0] : (tensor<3x3xi32>, tensor<i32>) -> tensor<7x4xi32>
    return %0, %1, %2 : tensor<10x3xf32>, tensor<10x5xf32>, tensor<7x4xi32>
  }
}
