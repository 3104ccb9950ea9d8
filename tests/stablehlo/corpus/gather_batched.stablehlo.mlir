// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in float32 3x4x3 -1.375 2.171875 -1.390625 -1.078125 -1.203125 1.109375 -0.890625 0.671875 0.59375 0.265625 -1.3125 -0.609375 1.671875 -1.296875 -0.828125 -0.15625 0.8125 0.25 0.734375 -1.0625 0.9375 0.5625 -1.59375 1.546875 2.296875 -0.765625 0.0625 1.390625 -1.484375 -1.984375 -1.296875 -0.5625 -0.578125 0.609375 0.265625 -1.25
// in int32 3 0 9 1
// out float32 3x2x2 -1.375 2.171875 -1.078125 -1.203125 0.734375 -1.0625 0.5625 -1.59375 1.390625 -1.484375 -1.296875 -0.5625
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x4x3xf32>, %arg1: tensor<3xi32>) -> (tensor<3x2x2xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %c_0 = stablehlo.constant dense<4> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<3xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<3xi1>, tensor<3xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<3x1xi32>
    %7 = stablehlo.concatenate %5, %6, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
    %8 = "stablehlo.gather"(%arg0, %7) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1, 2], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 2, 2>}> : (tensor<3x4x3xf32>, tensor<3x2xi32>) -> tensor<3x2x2xf32>
    return %8 : tensor<3x2x2xf32>
  }
}
