// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in float32 7x2 0.625 0.15625 0.28125 0.59375 -0.671875 -0.234375 0.515625 1.0 0.390625 2.546875 -0.09375 1.0 1.265625 -0.140625
// in int32 7x2 2 1 2 2 2 2 1 1 2 2 2 2 1 2
// out float32 2 2.3125 4.921875
// out int32 2 32 32
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<7x2xf32>, %arg1: tensor<7x2xi32>) -> (tensor<2xf32> {jax.result_info = "result[0]"}, tensor<2xi32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.reduce(%arg0 init: %cst), (%arg1 init: %c) across dimensions = [0] : (tensor<7x2xf32>, tensor<7x2xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
     reducer(%arg2: tensor<f32>, %arg4: tensor<f32>) (%arg3: tensor<i32>, %arg5: tensor<i32>)  {
      %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %1 = stablehlo.multiply %arg4, %cst_0 : tensor<f32>
      %2 = stablehlo.add %arg2, %1 : tensor<f32>
      %3 = stablehlo.subtract %2, %arg4 : tensor<f32>
      %4 = stablehlo.multiply %arg3, %arg5 : tensor<i32>
      stablehlo.return %3, %4 : tensor<f32>, tensor<i32>
    }
    return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
  }
}
