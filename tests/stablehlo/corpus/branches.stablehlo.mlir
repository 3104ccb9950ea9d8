// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in bool - 1
// in int32 - 2
// in float32 4x3 0.34375 0.828125 0.328125 -1.296875 0.90625 0.453125 -0.53125 0.578125 0.359375 0.296875 0.03125 0.546875
// out float32 4x3 1.34375 1.828125 1.328125 -0.296875 1.90625 1.453125 0.46875 1.578125 1.359375 1.296875 1.03125 1.546875
// out float32 4x3 1.5 1.5 1.5 0.0625 0.0625 0.0625 0.40625 0.40625 0.40625 0.875 0.875 0.875
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<4x3xf32>) -> (tensor<4x3xf32> {jax.result_info = "result[0]"}, tensor<4x3xf32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<i1>) -> tensor<i32>
    %1 = "stablehlo.case"(%0) ({
      %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
      %5 = stablehlo.multiply %arg2, %4 : tensor<4x3xf32>
      stablehlo.return %5 : tensor<4x3xf32>
    }, {
      %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
      %5 = stablehlo.add %arg2, %4 : tensor<4x3xf32>
      stablehlo.return %5 : tensor<4x3xf32>
    }) : (tensor<i32>) -> tensor<4x3xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %2 = stablehlo.clamp %c, %arg1, %c_0 : tensor<i32>
    %3 = "stablehlo.case"(%2) ({
      %4 = stablehlo.sine %arg2 : tensor<4x3xf32>
      stablehlo.return %4 : tensor<4x3xf32>
    }, {
      %4 = stablehlo.cosine %arg2 : tensor<4x3xf32>
      stablehlo.return %4 : tensor<4x3xf32>
    }, {
      %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x3xf32>
      %5 = stablehlo.dot_general %arg2, %4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
      stablehlo.return %5 : tensor<4x3xf32>
    }) : (tensor<i32>) -> tensor<4x3xf32>
    return %1, %3 : tensor<4x3xf32>, tensor<4x3xf32>
  }
}
