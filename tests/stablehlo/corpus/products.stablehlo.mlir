// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in float32 2x3x4 3.09375 -0.703125 -0.734375 0.859375 -0.046875 -1.78125 0.625 0.859375 -0.453125 -0.28125 0.484375 -0.90625 0.4375 0.203125 -0.671875 -1.390625 -0.21875 -0.875 1.0 0.140625 0.78125 0.140625 0.265625 -0.78125
// in float32 2x4x5 0.671875 1.78125 -0.3125 -0.59375 -0.15625 -0.484375 -0.703125 0.140625 -0.296875 1.4375 0.0 0.328125 0.953125 -0.296875 1.4375 -0.625 -0.8125 -0.359375 -0.109375 -1.40625 -0.03125 -1.671875 1.390625 -0.078125 -0.640625 -0.90625 -0.390625 -0.21875 -1.046875 -0.921875 -0.1875 -0.515625 0.9375 1.140625 0.015625 0.46875 -1.328125 0.640625 -0.03125 0.484375
// out float32 2x3x5 1.882080078125 5.06591796875 -2.074462890625 -1.504150390625 -3.75830078125 0.294189453125 0.67578125 0.051025390625 0.277099609375 -2.86328125 0.398193359375 0.285888671875 0.889404296875 0.307861328125 1.63720703125 -0.7236328125 1.382568359375 -0.956787109375 -0.9697265625 -1.151611328125 0.67822265625 0.005126953125 0.914794921875 2.0693359375 1.030517578125 -0.56787109375 -0.46044921875 0.80419921875 0.119140625 -1.00439453125
// out float32 3x5x2 1.882080078125 -0.7236328125 5.06591796875 1.382568359375 -2.074462890625 -0.956787109375 -1.504150390625 -0.9697265625 -3.75830078125 -1.151611328125 0.294189453125 0.67822265625 0.67578125 0.005126953125 0.051025390625 0.914794921875 0.277099609375 2.0693359375 -2.86328125 1.030517578125 0.398193359375 -0.56787109375 0.285888671875 -0.46044921875 0.889404296875 0.80419921875 0.307861328125 0.119140625 1.63720703125 -1.00439453125
// out float32 2x5x3 1.882080078125 0.294189453125 0.398193359375 5.06591796875 0.67578125 0.285888671875 -2.074462890625 0.051025390625 0.889404296875 -1.504150390625 0.277099609375 0.307861328125 -3.75830078125 -2.86328125 1.63720703125 -0.7236328125 0.67822265625 -0.56787109375 1.382568359375 0.005126953125 -0.46044921875 -0.956787109375 0.914794921875 0.80419921875 -0.9697265625 2.0693359375 0.119140625 -1.151611328125 1.030517578125 -1.00439453125
// out float32 3x5 1.158447265625 6.448486328125 -3.03125 -2.473876953125 -4.909912109375 0.972412109375 0.680908203125 0.9658203125 2.346435546875 -1.832763671875 -0.169677734375 -0.174560546875 1.693603515625 0.427001953125 0.6328125
// out float32 4 3.59375 -3.296875 0.96875 -1.21875
// out float32 4x5 2.07861328125 5.5107421875 -0.966796875 -1.8369140625 -0.4833984375 -0.472412109375 -1.25244140625 0.2197265625 0.41748046875 0.10986328125 -0.493408203125 -1.30810546875 0.2294921875 0.43603515625 0.11474609375 0.577392578125 1.53076171875 -0.2685546875 -0.51025390625 -0.13427734375
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3x4xf32>, %arg1: tensor<2x4x5xf32>) -> (tensor<2x3x5xf32> {jax.result_info = "result[0]"}, tensor<3x5x2xf32> {jax.result_info = "result[1]"}, tensor<2x5x3xf32> {jax.result_info = "result[2]"}, tensor<3x5xf32> {jax.result_info = "result[3]"}, tensor<4xf32> {jax.result_info = "result[4]"}, tensor<4x5xf32> {jax.result_info = "result[5]"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
    %1 = stablehlo.transpose %arg1, dims = [0, 2, 1] : (tensor<2x4x5xf32>) -> tensor<2x5x4xf32>
    %2 = stablehlo.dot_general %1, %arg0, batching_dims = [0] x [0], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x5x4xf32>, tensor<2x3x4xf32>) -> tensor<2x5x3xf32>
    %3 = stablehlo.transpose %2, dims = [2, 1, 0] : (tensor<2x5x3xf32>) -> tensor<3x5x2xf32>
    %4 = stablehlo.dot_general %arg1, %arg0, batching_dims = [0] x [0], contracting_dims = [1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x4x5xf32>, tensor<2x3x4xf32>) -> tensor<2x5x3xf32>
    %5 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [0, 2] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<3x5xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<4xf32>
    %7 = stablehlo.slice %arg0 [0:1, 0:1, 0:4] : (tensor<2x3x4xf32>) -> tensor<1x1x4xf32>
    %8 = stablehlo.reshape %7 : (tensor<1x1x4xf32>) -> tensor<4xf32>
    %9 = stablehlo.slice %arg1 [0:1, 0:1, 0:5] : (tensor<2x4x5xf32>) -> tensor<1x1x5xf32>
    %10 = stablehlo.reshape %9 : (tensor<1x1x5xf32>) -> tensor<5xf32>
    %11 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
    %12 = stablehlo.broadcast_in_dim %10, dims = [1] : (tensor<5xf32>) -> tensor<1x5xf32>
    %13 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x5xf32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<1x5xf32>) -> tensor<4x5xf32>
    %15 = stablehlo.multiply %13, %14 : tensor<4x5xf32>
    return %0, %3, %4, %5, %6, %15 : tensor<2x3x5xf32>, tensor<3x5x2xf32>, tensor<2x5x3xf32>, tensor<3x5xf32>, tensor<4xf32>, tensor<4x5xf32>
  }
}
