// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in float32 4x3 1.59375 -2.28125 0.265625 -1.09375 0.59375 -1.3125 -0.5 0.203125 0.609375 0.078125 -0.796875 -0.546875
// in float32 3x2 0.890625 -0.0 -1.6875 0.84375 0.421875 0.875
// out int32 4x3 4 -6 0 -3 1 -3 -1 0 1 0 -2 -1
// out float32 4x2 5.381103515625 -1.6923828125 -2.52978515625 -0.6474609375 -0.531005859375 0.70458984375 1.18359375 -1.15087890625
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x3xf32>, %arg1: tensor<3x2xf32>) -> (tensor<4x3xi32> {jax.result_info = "result[0]"}, tensor<4x2xf32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<4x3xf32>) -> tensor<4x3xbf16>
    %cst = stablehlo.constant dense<3.000000e+00> : tensor<bf16>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<4x3xbf16>
    %2 = stablehlo.multiply %0, %1 : tensor<4x3xbf16>
    %3 = stablehlo.convert %2 : (tensor<4x3xbf16>) -> tensor<4x3xi32>
    %4 = stablehlo.convert %arg0 : (tensor<4x3xf32>) -> tensor<4x3xbf16>
    %5 = stablehlo.convert %arg1 : (tensor<3x2xf32>) -> tensor<3x2xbf16>
    %6 = stablehlo.dot_general %4, %5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x3xbf16>, tensor<3x2xbf16>) -> tensor<4x2xf32>
    return %3, %6 : tensor<4x3xi32>, tensor<4x2xf32>
  }
}
