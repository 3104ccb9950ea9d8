// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in float32 2x6x6x2 -0.734375 -0.15625 -0.484375 0.59375 0.046875 -0.296875 -0.78125 -0.25 0.015625 -0.28125 1.296875 1.0 -2.71875 -1.890625 -0.171875 -0.421875 0.21875 0.21875 2.125 -1.109375 -0.375 2.046875 0.640625 0.65625 -0.515625 -1.640625 0.171875 0.109375 -1.234375 -0.6875 -0.078125 -0.9375 -0.09375 0.09375 0.03125 -0.5 0.59375 0.890625 0.328125 -0.8125 0.734375 -0.5 0.875 -1.078125 0.921875 -0.015625 -1.25 -0.3125 0.046875 0.265625 -0.984375 -1.109375 0.203125 -0.46875 0.234375 0.765625 -1.65625 0.25 1.21875 -0.296875 -0.8125 0.75 0.25 0.890625 -0.34375 -1.484375 -0.109375 -0.453125 0.78125 0.1875 -1.625 -1.1875 0.890625 0.6875 -0.640625 -0.0 0.453125 0.46875 0.875 0.25 -0.09375 -0.265625 1.0625 -2.25 -0.140625 0.03125 -1.421875 0.328125 -0.65625 0.859375 -0.125 0.671875 1.21875 0.390625 -0.875 -1.515625 1.75 -0.109375 -0.6875 0.140625 -0.1875 0.859375 0.03125 0.015625 -0.71875 0.46875 -1.03125 0.671875 1.53125 -1.53125 -2.46875 0.609375 2.546875 -1.0 -1.25 0.59375 -0.84375 -0.5 -0.34375 0.53125 -0.40625 0.28125 -0.171875 -0.84375 -0.3125 -0.953125 0.0 -1.125 -1.09375 1.453125 -0.046875 -0.046875 0.515625 -0.421875 -0.234375 0.421875 0.28125 -1.15625 0.828125 -0.59375 -1.0625 -0.90625 -0.390625 1.625
// out float32 2x6x6x2 0.0 0.0 0.0 1.1875 0.0 0.0 0.0 0.0 0.0 0.0 2.59375 0.0 0.0 0.0 -0.34375 0.0 0.0 0.4375 4.25 0.0 0.0 4.09375 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.1875 0.0 0.0 1.1875 1.78125 0.0 0.0 0.0 -1.0 1.75 0.0 1.84375 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.46875 1.53125 0.0 0.5 2.4375 0.0 0.0 0.0 0.5 1.78125 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 1.78125 1.375 0.0 0.0 0.0 0.0 1.75 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 1.71875 0.0 0.0 2.4375 0.78125 0.0 0.0 3.5 0.0 0.0 0.0 0.0 1.71875 0.0 0.0 0.0 0.0 0.0 1.34375 0.0 0.0 0.0 1.21875 5.09375 0.0 0.0 0.0 0.0 0.0 -0.6875 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 -0.09375 0.0 1.03125 0.0 0.0 0.84375 0.0 0.0 1.65625 -1.1875 0.0 0.0 0.0 3.25
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x6x6x2xf32>) -> (tensor<2x6x6x2xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %11 = stablehlo.maximum %arg1, %arg2 : tensor<f32>
      stablehlo.return %11 : tensor<f32>
    }) : (tensor<2x6x6x2xf32>, tensor<f32>) -> tensor<2x3x3x2xf32>
    %2 = stablehlo.multiply %1, %1 : tensor<2x3x3x2xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x3x2xf32>
    %4 = stablehlo.multiply %3, %1 : tensor<2x3x3x2xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.reduce(%2 init: %cst_1) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<2x3x3x2xf32>, tensor<f32>) -> tensor<f32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x3x3x2xf32>
    %7 = stablehlo.multiply %6, %4 : tensor<2x3x3x2xf32>
    %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %8 = stablehlo.pad %arg0, %cst_3, low = [0, 0, 0, 0], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x6x6x2xf32>, tensor<f32>) -> tensor<2x6x6x2xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = "stablehlo.select_and_scatter"(%8, %7, %cst_4) <{padding = dense<0> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %11 = stablehlo.compare GE, %arg1, %arg2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %11 : tensor<i1>
    }, {
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %11 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %11 : tensor<f32>
    }) : (tensor<2x6x6x2xf32>, tensor<2x3x3x2xf32>, tensor<f32>) -> tensor<2x6x6x2xf32>
    %10 = stablehlo.slice %9 [0:2, 0:6, 0:6, 0:2] : (tensor<2x6x6x2xf32>) -> tensor<2x6x6x2xf32>
    return %10 : tensor<2x6x6x2xf32>
  }
}
