// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in float32 4x3 0.34375 0.828125 0.328125 -1.296875 0.90625 0.453125 -0.53125 0.578125 0.359375 0.296875 0.03125 0.546875
// out float32 4x3 4.34375 4.828125 4.328125 2.703125 4.90625 4.453125 3.46875 4.578125 4.359375 4.296875 4.03125 4.546875
// out float32 4x3 64.05183410644531 64.05335998535156 64.0517807006836 64.04662322998047 64.05361938476562 64.05217742919922 64.04905700683594 64.05257415771484 64.0518798828125 64.05168151855469 64.05083465576172 64.05247497558594
// out float32 3 -0.228515625 0.7021484375 0.9013671875
// out float32 4 1.5 2.25 1.1875 1.0
// out float32 4x3 3.34375 3.828125 3.328125 1.703125 3.90625 3.453125 2.46875 3.578125 3.359375 3.296875 3.03125 3.546875
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x3xf32>) -> (tensor<4x3xf32> {jax.result_info = "result[0]"}, tensor<4x3xf32> {jax.result_info = "result[1]"}, tensor<3xf32> {jax.result_info = "result[2][0]"}, tensor<4xf32> {jax.result_info = "result[2][1]"}, tensor<4x3xf32> {jax.result_info = "result[3]"}) {
    %0 = stablehlo.while(%iterArg = %arg0) : tensor<4x3xf32>
    cond {
      %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %7 = stablehlo.reduce(%iterArg init: %cst_4) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<f32>
      %cst_5 = stablehlo.constant dense<5.000000e+01> : tensor<f32>
      %8 = stablehlo.compare LT, %7, %cst_5, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %8 : tensor<i1>
    } do {
      %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %7 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
      %8 = stablehlo.add %iterArg, %7 : tensor<4x3xf32>
      stablehlo.return %8 : tensor<4x3xf32>
    }
    %c = stablehlo.constant dense<0> : tensor<i64>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %1:3 = stablehlo.while(%iterArg = %c_0, %iterArg_4 = %c, %iterArg_5 = %arg0) : tensor<i64>, tensor<i64>, tensor<4x3xf32>
    cond {
      %c_6 = stablehlo.constant dense<20> : tensor<i64>
      %7 = stablehlo.compare LT, %iterArg, %c_6, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:2 = func.call @closed_call(%iterArg_4, %iterArg_5) : (tensor<i64>, tensor<4x3xf32>) -> (tensor<i64>, tensor<4x3xf32>)
      %c_6 = stablehlo.constant dense<1> : tensor<i64>
      %8 = stablehlo.add %iterArg, %c_6 : tensor<i64>
      stablehlo.return %8, %7#0, %7#1 : tensor<i64>, tensor<i64>, tensor<4x3xf32>
    }
    %2 = stablehlo.slice %arg0 [0:1, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
    %3 = stablehlo.reshape %2 : (tensor<1x3xf32>) -> tensor<3xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %c_1 = stablehlo.constant dense<0> : tensor<i64>
    %5:4 = stablehlo.while(%iterArg = %arg0, %iterArg_4 = %c_1, %iterArg_5 = %3, %iterArg_6 = %4) : tensor<4x3xf32>, tensor<i64>, tensor<3xf32>, tensor<4xf32>
    cond {
      %c_7 = stablehlo.constant dense<4> : tensor<i64>
      %7 = stablehlo.compare LT, %iterArg_4, %c_7, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_4) : (tensor<4x3xf32>, tensor<i64>) -> tensor<3xf32>
      %8:2 = func.call @closed_call_0(%iterArg_5, %7) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<f32>)
      %9 = func.call @dynamic_update_index_in_dim(%iterArg_6, %8#1, %iterArg_4) : (tensor<4xf32>, tensor<f32>, tensor<i64>) -> tensor<4xf32>
      %c_7 = stablehlo.constant dense<1> : tensor<i64>
      %10 = stablehlo.add %iterArg_4, %c_7 : tensor<i64>
      stablehlo.return %iterArg, %10, %8#0, %9 : tensor<4x3xf32>, tensor<i64>, tensor<3xf32>, tensor<4xf32>
    }
    %c_2 = stablehlo.constant dense<0> : tensor<i64>
    %c_3 = stablehlo.constant dense<0> : tensor<i64>
    %6:3 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %arg0) : tensor<i64>, tensor<i64>, tensor<4x3xf32>
    cond {
      %c_6 = stablehlo.constant dense<3> : tensor<i64>
      %7 = stablehlo.compare LT, %iterArg, %c_6, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:2 = func.call @closed_call_1(%iterArg_4, %iterArg_5) : (tensor<i64>, tensor<4x3xf32>) -> (tensor<i64>, tensor<4x3xf32>)
      %c_6 = stablehlo.constant dense<1> : tensor<i64>
      %8 = stablehlo.add %iterArg, %c_6 : tensor<i64>
      stablehlo.return %8, %7#0, %7#1 : tensor<i64>, tensor<i64>, tensor<4x3xf32>
    }
    return %0, %1#2, %5#2, %5#3, %6#2 : tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<4xf32>, tensor<4x3xf32>
  }
  func.func private @closed_call(%arg0: tensor<i64>, %arg1: tensor<4x3xf32>) -> (tensor<i64>, tensor<4x3xf32>) {
    %c = stablehlo.constant dense<1> : tensor<i64>
    %0 = stablehlo.add %arg0, %c : tensor<i64>
    %cst = stablehlo.constant dense<7.500000e-01> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
    %2 = stablehlo.multiply %arg1, %1 : tensor<4x3xf32>
    %3 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<f32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
    %5 = stablehlo.add %2, %4 : tensor<4x3xf32>
    return %0, %5 : tensor<i64>, tensor<4x3xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<4x3xf32>, %arg1: tensor<i64>) -> tensor<3xf32> {
    %c = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 3] : (tensor<4x3xf32>, tensor<i64>, tensor<i64>) -> tensor<1x3xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3xf32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
  func.func private @closed_call_0(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> (tensor<3xf32>, tensor<f32>) {
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<3xf32>
    %2 = stablehlo.add %1, %arg1 : tensor<3xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    return %2, %3 : tensor<3xf32>, tensor<f32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<4xf32>, %arg1: tensor<f32>, %arg2: tensor<i64>) -> tensor<4xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2 : (tensor<4xf32>, tensor<1xf32>, tensor<i64>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @closed_call_1(%arg0: tensor<i64>, %arg1: tensor<4x3xf32>) -> (tensor<i64>, tensor<4x3xf32>) {
    %c = stablehlo.constant dense<1> : tensor<i64>
    %0 = stablehlo.add %arg0, %c : tensor<i64>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
    %2 = stablehlo.add %arg1, %1 : tensor<4x3xf32>
    return %0, %2 : tensor<i64>, tensor<4x3xf32>
  }
}
