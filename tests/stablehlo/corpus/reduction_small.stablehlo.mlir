// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in int8 5x2 -48 -41 -34 -21 24 -20 -42 42 -19 43
// out int8 2 -119 3
// out int8 - 43
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<5x2xi8>) -> (tensor<2xi8> {jax.result_info = "result[0]"}, tensor<i8> {jax.result_info = "result[1]"}) {
    %c = stablehlo.constant dense<0> : tensor<i8>
    %0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<5x2xi8>, tensor<i8>) -> tensor<2xi8>
    %c_0 = stablehlo.constant dense<3> : tensor<i8>
    %1 = stablehlo.reduce(%arg0 init: %c_0) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<5x2xi8>, tensor<i8>) -> tensor<i8>
    return %0, %1 : tensor<2xi8>, tensor<i8>
  }
}
