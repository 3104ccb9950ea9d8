// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in float32 0x3
// out float32 - 0.0
// out float32 - 0.0
// out float32 0x3
// out float32 3 2.0 2.0 2.0
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<0x3xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<f32> {jax.result_info = "result[1]"}, tensor<0x3xf32> {jax.result_info = "result[2]"}, tensor<3xf32> {jax.result_info = "result[3]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<0x3xf32>, tensor<f32>) -> tensor<f32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<0x3xf32>, tensor<f32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.maximum %cst_1, %1 : tensor<f32>
    %3 = stablehlo.slice %arg0 [0:0, 0:0] : (tensor<0x3xf32>) -> tensor<0x0xf32>
    %4 = stablehlo.concatenate %arg0, %3, dim = 1 : (tensor<0x3xf32>, tensor<0x0xf32>) -> tensor<0x3xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %5 = stablehlo.reduce(%arg0 init: %cst_2) applies stablehlo.multiply across dimensions = [0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<3xf32>
    return %0, %2, %4, %5 : tensor<f32>, tensor<f32>, tensor<0x3xf32>, tensor<3xf32>
  }
}
