// SPDX-License-Identifier: Apache-2.0
// What ops refuse whose rules are shared with others; ops-invalid.mlir has the rest.
// RUN: not tessera-opt -split-input-file --no-output %s 2>&1 | FileCheck %s

func.func @f(%a: tensor<4xi1>, %b: tensor<4xi1>) {
  // CHECK: [TSR-0104] tessera.max: element type of lhs is i1, needs one of f64, f32, i64, i32, ui8, bf16, f16, i8
  %0 = tessera.max %a, %b : tensor<4xi1>
  return
}

// -----

func.func @f(%a: tensor<4xf32>, %b: tensor<5xf32>) {
  // CHECK: [TSR-0103] tessera.min: shapes do not broadcast: lhs dim 0 is 4 (4xf32), rhs dim 0 is 5 (5xf32); they must be equal, or one of them 1
  %0 = tessera.min %a, %b : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%a: tensor<4xui8>) {
  // CHECK: [TSR-0104] tessera.relu: element type of the operand is ui8, needs one of f64, f32, i64, i32, bf16, f16, i8
  %0 = tessera.relu %a : tensor<4xui8>
  return
}

// -----

func.func @f(%a: tensor<4xi32>) {
  // CHECK: [TSR-0104] tessera.log: element type of the operand is i32, needs one of f64, f32, bf16, f16
  %0 = tessera.log %a : tensor<4xi32>
  return
}

// -----

func.func @f(%a: tensor<4xi64>) {
  // CHECK: [TSR-0104] tessera.tanh: element type of the operand is i64, needs one of f64, f32, bf16, f16
  %0 = tessera.tanh %a : tensor<4xi64>
  return
}

// -----

func.func @f(%a: tensor<4xi8>) {
  // CHECK: [TSR-0104] tessera.sqrt: element type of the operand is i8, needs one of f64, f32, bf16, f16
  %0 = tessera.sqrt %a : tensor<4xi8>
  return
}

// -----

func.func @f(%a: tensor<4xi1>) {
  // CHECK: [TSR-0104] tessera.abs: element type of the operand is i1, needs one of f64, f32, i64, i32, bf16, f16, i8
  %0 = tessera.abs %a : tensor<4xi1>
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>) {
  // CHECK: [TSR-0106] tessera.sort: axis 2 is outside [0, 2)
  %0:2 = tessera.sort %a {axis = 2} : tensor<4x6xf32> -> (tensor<4x6xf32>, tensor<4x6xi64>)
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>) {
  // CHECK: [TSR-0106] tessera.logsumexp_safe: axis 2 is outside [0, 2) of the operand (4x6xf32)
  %0 = tessera.logsumexp_safe %a {axes = [2]} : tensor<4x6xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8x9x4xf32>, %g: tensor<2x4x5x6xf32>) {
  // CHECK: [TSR-0122] tessera.conv2d_grad_filter: 6 filters are not a multiple of 4 groups
  %0 = tessera.conv2d_grad_filter %x, %g {strides = [2, 2], padding = [1, 0, 1, 1], dilation = [1, 1], groups = 4 : i64} : (tensor<2x8x9x4xf32>, tensor<2x4x5x6xf32>) -> tensor<3x3x1x6xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8x9x4xf32>, %p: tensor<2x4x5x4xf32>) {
  // CHECK: [TSR-0118] tessera.max_pool2d_grad: the result's gradient is 2x4x5x4xf32, must be 2x4x4x4xf32
  %0 = tessera.max_pool2d_grad %x, %p {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]} : (tensor<2x8x9x4xf32>, tensor<2x4x5x4xf32>)
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0113] tessera.seed: result has 1 dims in 'tensor<2xi64>', must have 0; did you mean 'tensor<i64>'?
  %0 = tessera.seed : tensor<2xi64>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0113] tessera.hyperparameter: result has 1 dims in 'tensor<2xf32>', must have 0; did you mean 'tensor<f32>'?
  %0 = tessera.hyperparameter {key = "a", value = 0.5} : tensor<2xf32>
  return
}

// -----

func.func @f() {
  // CHECK: tessera.hyperparameter: element type of the result is i64, must be f32 or f64
  %0 = tessera.hyperparameter {key = "a", value = 0.5} : tensor<i64>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0129] tessera.hyperparameter: value is 0.5, needs 1 <= value <= 2
  %0 = tessera.hyperparameter {key = "a", value = 0.5, least = 1.0, most = 2.0} : tensor<f32>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0129] tessera.hyperparameter: value is 1e+39, needs -3.40282e+38 <= value <= 3.40282e+38
  %0 = tessera.hyperparameter {key = "a", value = 1.0e39} : tensor<f32>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0201] tessera.hyperparameter: key is empty, too long or not printable
  %0 = tessera.hyperparameter {key = "", value = 0.5} : tensor<f32>
  return
}

// -----

func.func @f(%i: tensor<3xf32>) {
  // CHECK: [TSR-0104] tessera.one_hot: element type of indices is f32, needs one of i64, i32
  %0 = tessera.one_hot %i {axis = 1} : tensor<3xf32> -> tensor<3x5xf32>
  return
}

// -----

func.func @f(%x: tensor<4x6xi32>) {
  // CHECK: [TSR-0104] tessera.softmax_safe: element type of the operand is i32, needs one of f64, f32, bf16, f16
  %0 = tessera.softmax_safe %x {axis = 1} : tensor<4x6xi32>
  return
}

// -----

func.func @f(%x: tensor<4x6xf32>, %s: tensor<4xf32>) {
  // CHECK: [TSR-0137] tessera.rmsnorm_safe: scale (4xf32) does not broadcast to 4x6xf32
  %0 = tessera.rmsnorm_safe %x, %s {axes = [1]} : (tensor<4x6xf32>, tensor<4xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @f(%x: tensor<4x6xf32>, %s: tensor<6xf32>, %c: tensor<4xf32>) {
  // CHECK: [TSR-0118] tessera.batch_norm_train: mean is 4xf32, must be 6xf32
  %0:3 = tessera.batch_norm_train %x, %s, %s, %c, %c {axis = 1} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x6xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @f(%f: tensor<3x3x2x6xf32>, %g: tensor<2x4x5x8xf32>) {
  // CHECK: [TSR-0118] tessera.conv2d_grad_input: the result's gradient is 2x4x5x8xf32, must be 2x4x5x6xf32
  %0 = tessera.conv2d_grad_input %f, %g {strides = [2, 2], padding = [1, 0, 1, 1], dilation = [1, 1], groups = 2 : i64} : (tensor<3x3x2x6xf32>, tensor<2x4x5x8xf32>) -> tensor<2x8x9x4xf32>
  return
}

// -----

func.func @f(%x: tensor<8x9x4xf32>) {
  // CHECK: [TSR-0101] tessera.avg_pool2d: image has 3 dims (8x9x4xf32), needs 4
  %0 = tessera.avg_pool2d %x {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]} : tensor<8x9x4xf32> -> tensor<4x4x4xf32>
  return
}

// -----

func.func @f(%p: tensor<2x4x4x4xi32>) {
  // CHECK: [TSR-0104] tessera.avg_pool2d_grad: element type of the result's gradient is i32, needs one of f64, f32, bf16, f16
  %0 = tessera.avg_pool2d_grad %p {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]} : tensor<2x4x4x4xi32> -> tensor<2x8x9x4xi32>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0130] tessera.random_uniform: needs low < high, has 1 and 0
  %0 = tessera.random_uniform {low = 1.0, high = 0.0} : tensor<4xf32>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0128] tessera.random_uniform: goes from 0 to 100000; f16 holds -65504 to 65504
  %0 = tessera.random_uniform {low = 0.0, high = 1.0e5} : tensor<4xf16>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0112] tessera.random_normal: element type of the result is i32, must be a float
  %0 = tessera.random_normal : tensor<4xi32>
  return
}

// -----

func.func @f(%a: tensor<4x3xf32>, %b: tensor<5x1xf32>) {
  // CHECK: [TSR-0103] tessera.mul_add: shapes do not broadcast: x dim 0 is 4 (4x3xf32), y dim 0 is 5 (5x1xf32); they must be equal, or one of them 1
  %0 = tessera.mul_add %a, %b, %b : (tensor<4x3xf32>, tensor<5x1xf32>, tensor<5x1xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%a: tensor<4x1xf32>, %b: tensor<4x3xf32>) {
  // CHECK: tessera.mul_add: x
  %0 = tessera.mul_add %a, %b, %b : (tensor<4x1xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%a: tensor<4x3xf32>, %m: tensor<4x1xf32>) {
  // CHECK: [TSR-0141] tessera.repair: attribute "of" is 'median'; expected mean, average, size, deviation, variance, offset, incoming_mean, incoming_product, incoming_size or incoming_scale
  %0 = tessera.repair %a, %m {axes = [1], of = "median"} : (tensor<4x3xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  return
}

// -----

func.func @f(%a: tensor<4x3xf32>, %m: tensor<1x3xf32>) {
  // CHECK: tessera.repair: the plain result
  %0 = tessera.repair %a, %m {axes = [0], of = "average"} : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>
  return
}

// -----

func.func @f(%a: tensor<4x3xf32>, %m: tensor<4x1xf32>) {
  // CHECK: tessera.repair: has 2 operands
  %0 = tessera.repair %a, %m {axes = [1], of = "offset"} : (tensor<4x3xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  return
}

// -----

func.func @f(%a: tensor<4x3xf32>, %m: tensor<4x3xf32>) {
  // CHECK: tessera.repair: the plain result
  %0 = tessera.repair %a, %m {axes = [1], of = "size"} : tensor<4x3xf32> -> tensor<4x1xf32>
  return
}

// -----

func.func @f(%a: tensor<4x3xf32>, %m: tensor<4x1xf32>) {
  // CHECK: [TSR-0138] tessera.repair: eps is -1, needs eps >= 0
  %0 = tessera.repair %a, %m {axes = [1], of = "size", eps = -1.0} : (tensor<4x3xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  return
}

// -----

func.func @f(%a: tensor<4x3xf32>, %m: tensor<4x1xf32>) {
  // CHECK: [TSR-0117] tessera.repair: has 4 operands, needs 5 to 5
  %0 = tessera.repair %a, %a, %m, %m {axes = [1], of = "incoming_mean"} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  return
}

// -----

func.func @f(%a: tensor<4x3xf32>, %m: tensor<4x1xf32>) {
  // CHECK: tessera.repair: the normalized row
  %0 = tessera.repair %a, %m, %m, %m {axes = [1], of = "incoming_scale"} : (tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  return
}

// -----

func.func @f(%a: tensor<4x3xf32>, %m: tensor<4x1xf32>) {
  // CHECK: tessera.repair: the reciprocal size
  %0 = tessera.repair %a, %a, %m, %a {axes = [1], of = "incoming_size"} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x3xf32>) -> tensor<4x1xf32>
  return
}

// -----

func.func @f(%x: tensor<4xi64>) {
  // CHECK: [TSR-0104] tessera.verify.numerics: element type of the operand is i64, needs one of f64, f32, bf16, f16
  tessera.verify.numerics %x : tensor<4xi64>
  return
}

// -----

func.func @f(%x: tensor<2x5x7xf32>, %s: tensor<2x4x2xi64>) {
  // CHECK: [TSR-0102] tessera.moe_dispatch: {{.*}}numbers of tokens
  %0 = tessera.moe_dispatch %x, %s {experts = 3, capacity = 4} : (tensor<2x5x7xf32>, tensor<2x4x2xi64>) -> tensor<3x2x4x7xf32>
  return
}

// -----

func.func @f(%x: tensor<2x5x7xf32>, %s: tensor<2x5x2xi64>) {
  // CHECK: [TSR-0160] tessera.moe_dispatch: 65536 experts of capacity 65536 have more than 2147483647 slots
  %0 = tessera.moe_dispatch %x, %s {experts = 65536, capacity = 65536} : (tensor<2x5x7xf32>, tensor<2x5x2xi64>) -> tensor<65536x2x65536x7xf32>
  return
}

// -----

func.func @f(%y: tensor<3x2x4x7xf32>, %s: tensor<1x5x2xi64>, %w: tensor<1x5x2xf32>) {
  // CHECK: [TSR-0102] tessera.moe_combine: {{.*}}numbers of groups
  %0 = tessera.moe_combine %y, %s, %w : (tensor<3x2x4x7xf32>, tensor<1x5x2xi64>, tensor<1x5x2xf32>) -> tensor<1x5x7xf32>
  return
}

// -----

func.func @f(%y: tensor<3x2x4x7xf32>, %s: tensor<2x5x2xi64>, %x: tensor<2x5x6xf32>) {
  // CHECK: [TSR-0102] tessera.moe_dot: {{.*}}numbers of channels
  %0 = tessera.moe_dot %y, %s, %x : (tensor<3x2x4x7xf32>, tensor<2x5x2xi64>, tensor<2x5x6xf32>) -> tensor<2x5x2xf32>
  return
}
