// SPDX-License-Identifier: Apache-2.0
// What each op refuses: op, dim and both values, at its place in the source.
// RUN: not tessera-opt -split-input-file --no-output %s 2>&1 | FileCheck %s

func.func @f(%a: tensor<8x64xf32>, %b: tensor<63x10xf32>) {
  // CHECK: ops-invalid.mlir:[[@LINE+3]]:8: error: [TSR-0102] tessera.matmul: contracted dimensions differ: lhs dim 1 is 64, rhs dim 0 is 63
  // CHECK-NEXT: {{^}}  %0 = tessera.matmul %a, %b : (tensor<8x64xf32>, tensor<63x10xf32>) -> tensor<8x10xf32>
  // CHECK-NEXT: {{^}}       ^
  %0 = tessera.matmul %a, %b : (tensor<8x64xf32>, tensor<63x10xf32>) -> tensor<8x10xf32>
  return
}

// -----

func.func @f(%a: tensor<8x64xf32>, %b: tensor<8x10xf32>) {
  // CHECK: [TSR-0102] tessera.matmul: contracted dimensions differ: lhs dim 0 is 8, rhs dim 1 is 10
  %0 = tessera.matmul %a, %b {transpose_a = true, transpose_b = true} : (tensor<8x64xf32>, tensor<8x10xf32>) -> tensor<64x8xf32>
  return
}

// -----

func.func @f(%a: tensor<8x64xf32>, %b: tensor<64x10xf32>) {
  // CHECK: [TSR-0105] tessera.matmul: result dim 1 is 11 in 'tensor<8x11xf32>', must be 10; did you mean 'tensor<8x10xf32>'?
  %0 = tessera.matmul %a, %b : (tensor<8x64xf32>, tensor<64x10xf32>) -> tensor<8x11xf32>
  return
}

// -----

func.func @f(%a: tensor<8xf32>, %b: tensor<8x10xf32>) {
  // CHECK: [TSR-0101] tessera.matmul: lhs has 1 dims (8xf32), needs at least 2
  %0 = tessera.matmul %a, %b : (tensor<8xf32>, tensor<8x10xf32>) -> tensor<10xf32>
  return
}

// -----

func.func @f(%a: tensor<2x2xi32>) {
  // CHECK: [TSR-0104] tessera.words: element type of the operand is i32, needs one of ui8, i8
  %0 = tessera.words %a {axis = 1} : tensor<2x2xi32> -> tensor<2x1xi32>
  return
}

// -----

func.func @f(%a: tensor<2x2xi32>) {
  // CHECK: [TSR-0104] tessera.matmul: element type of lhs is i32, needs one of f64, f32, ui8, bf16, f16, i8
  %0 = tessera.matmul %a, %a : tensor<2x2xi32> -> tensor<2x2xi32>
  return
}

// -----

func.func @f(%a: tensor<2x2xf32>, %b: tensor<2x2xf64>) {
  // CHECK: [TSR-0111] tessera.matmul: element types differ: lhs is f32, rhs is f64
  %0 = tessera.matmul %a, %b : (tensor<2x2xf32>, tensor<2x2xf64>) -> tensor<2x2xf32>
  return
}

// -----

func.func @f(%a: tensor<64x128xf32>, %b: tensor<64xf32>) {
  // CHECK: [TSR-0103] tessera.add: shapes do not broadcast: lhs dim 1 is 128 (64x128xf32), rhs dim 0 is 64 (64xf32); they must be equal, or one of them 1
  %0 = tessera.add %a, %b : (tensor<64x128xf32>, tensor<64xf32>) -> tensor<64x128xf32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>, %b: tensor<2xi64>) {
  // CHECK: [TSR-0111] tessera.mul: element types differ: lhs is f32, rhs is i64
  %0 = tessera.mul %a, %b : (tensor<2xf32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2xi1>) {
  // CHECK: [TSR-0104] tessera.add: element type of lhs is i1, needs one of f64, f32, i64, i32
  %0 = tessera.add %a, %a : tensor<2xi1>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // CHECK: [TSR-0113] tessera.sub: result has 2 dims in 'tensor<1x2xf32>', must have 1; did you mean 'tensor<2xf32>'?
  %0 = tessera.sub %a, %a : tensor<2xf32> -> tensor<1x2xf32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // CHECK: [TSR-0112] tessera.div: element type of the result is f64 in 'tensor<{{.*}}>', must be f32; did you mean
  %0 = tessera.div %a, %a : tensor<2xf32> -> tensor<2xf64>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // CHECK: [TSR-0104] tessera.ipow: element type of exponent is f32, needs i64
  %0 = tessera.ipow %a, %a : tensor<2xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2xi64>) {
  // CHECK: [TSR-0104] tessera.exp: element type of the operand is i64, needs one of f64, f32, bf16, f16
  %0 = tessera.exp %a : tensor<2xi64>
  return
}

// -----

func.func @f(%a: tensor<2xui8>) {
  // CHECK: [TSR-0104] tessera.neg: element type of the operand is ui8, needs one of f64, f32, i64, i32
  %0 = tessera.neg %a : tensor<2xui8>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // CHECK: [TSR-0002] 'tessera.relu' op failed to verify that all of {input, result} have same type
  %0 = "tessera.relu"(%a) : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>, %b: tensor<3xf32>) {
  // CHECK: [TSR-0103] tessera.compare: shapes do not broadcast: lhs dim 0 is 2 (2xf32), rhs dim 0 is 3 (3xf32)
  %0 = tessera.compare lt %a, %b : (tensor<2xf32>, tensor<3xf32>) -> tensor<3xi1>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // CHECK: [TSR-0112] tessera.compare: element type of the result is f32 in 'tensor<{{.*}}>', must be i1; did you mean
  %0 = tessera.compare lt %a, %a : tensor<2xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // CHECK: [TSR-0001] custom op 'tessera.compare' has no comparison 'like'; expected eq, ne, lt, le, gt or ge
  %0 = tessera.compare like %a, %a : tensor<2xf32> -> tensor<2xi1>
  return
}

// -----

func.func @f(%c: tensor<2xf32>) {
  // CHECK: [TSR-0104] tessera.where: element type of condition is f32, needs i1
  %0 = tessera.where %c, %c, %c : tensor<2xf32>
  return
}

// -----

func.func @f(%c: tensor<2xi1>, %a: tensor<4x2xf32>, %b: tensor<3x2xf32>) {
  // CHECK: [TSR-0103] tessera.where: shapes do not broadcast: the earlier operands' dim 0 is 4 (4x2xi1), on_false dim 0 is 3 (3x2xf32)
  %0 = tessera.where %c, %a, %b : (tensor<2xi1>, tensor<4x2xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // CHECK: [TSR-0105] tessera.cast: result dim 0 is 3 in 'tensor<3xi64>', must be 2; did you mean 'tensor<2xi64>'?
  %0 = tessera.cast %a : tensor<2xf32> -> tensor<3xi64>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // CHECK: [TSR-0106] tessera.sum: axis 2 is outside [0, 2) of the operand (2x3xf32)
  %0 = tessera.sum %a {axes = [2]} : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // CHECK: [TSR-0115] tessera.mean: axes must ascend: 1 comes after 1
  %0 = tessera.mean %a {axes = [1, 1]} : tensor<2x3xf32> -> tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<2x3xi64>) {
  // CHECK: [TSR-0104] tessera.mean: element type of the operand is i64, needs one of f64, f32, bf16, f16
  %0 = tessera.mean %a {axes = [1]} : tensor<2x3xi64> -> tensor<2xi64>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // CHECK: [TSR-0105] tessera.reduce_max: result dim 0 is 2 in 'tensor<2xf32>', must be 3; did you mean 'tensor<3xf32>'?
  %0 = tessera.reduce_max %a {axes = [0]} : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // CHECK: [TSR-0106] tessera.argmax: axis -1 is outside [0, 2) of the operand (2x3xf32)
  %0 = tessera.argmax %a {axis = -1 : i64} : tensor<2x3xf32> -> tensor<2xi64>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // CHECK: [TSR-0107] tessera.reshape: the operand has 6 elements (2x3xf32), the result 8 (2x4xf32)
  %0 = tessera.reshape %a : tensor<2x3xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // CHECK: [TSR-0107] tessera.reshape: the operand has 6 elements (2x3xf32), which 4x?xf32 cannot hold
  %0 = tessera.reshape %a : tensor<2x3xf32> -> tensor<4x?xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // CHECK: [TSR-0116] tessera.transpose: permutation has 0 twice
  %0 = tessera.transpose %a {permutation = [0, 0]} : tensor<2x3xf32> -> tensor<2x2xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // CHECK: [TSR-0116] tessera.transpose: permutation has 3 entries, the operand 2 dims
  %0 = tessera.transpose %a {permutation = [0, 1, 2]} : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // CHECK: [TSR-0105] tessera.transpose: result dim 0 is 2 in 'tensor<2x3xf32>', must be 3; did you mean 'tensor<3x2xf32>'?
  %0 = tessera.transpose %a {permutation = [1, 0]} : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // CHECK: [TSR-0137] tessera.broadcast: dim 0 of the operand is 2 (2x3xf32), dim 1 of the result is 4 (5x4x3xf32); only a dim of 1 broadcasts
  %0 = tessera.broadcast %a : tensor<2x3xf32> -> tensor<5x4x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // CHECK: [TSR-0101] tessera.broadcast: the operand has 2 dims (2x3xf32), the result only 1 (3xf32)
  %0 = tessera.broadcast %a : tensor<2x3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %l: tensor<3xi64>) {
  // CHECK: [TSR-0102] tessera.cross_entropy: numbers of rows differ: logits dim 0 is 2, labels dim 0 is 3
  %0 = tessera.cross_entropy %a, %l : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %l: tensor<2xui8>) {
  // CHECK: [TSR-0104] tessera.cross_entropy: element type of labels is ui8, needs one of i64, i32
  %0 = tessera.cross_entropy %a, %l : (tensor<2x3xf32>, tensor<2xui8>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %l: tensor<2xi64>, %d: tensor<4xf32>) {
  // CHECK: [TSR-0102] tessera.cross_entropy_grad: numbers of rows differ: logits dim 0 is 2, dlosses dim 0 is 4
  %0 = tessera.cross_entropy_grad %a, %l, %d : (tensor<2x3xf32>, tensor<2xi64>, tensor<4xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0128] tessera.param: uniform goes from -1e+39 to 1; f32 holds -3.40282e+38 to 3.40282e+38
  %0 = tessera.param "w" init = #tessera.uniform<-1.0e39, 1.0> : tensor<2xf32>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0130] tessera.param: uniform needs low < high, has 1 and -1
  %0 = tessera.param "w" init = #tessera.uniform<1.0, -1.0> : tensor<2xf32>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0131] tessera.param: normal needs a deviation > 0, has 0
  %0 = tessera.param "w" init = #tessera.normal<1.0, 0.0> : tensor<2xf32>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0212] tessera.param: the type of init differs from the result's
  %0 = "tessera.param"() {init = #tessera.constant<1.0> : tensor<3xf32>} : () -> tensor<2xf32>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0210] tessera.param: has both init and data
  %0 = "tessera.param"() {init = #tessera.constant<1.0>, data = dense<1.0> : tensor<2xf32>} : () -> tensor<2xf32>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0212] tessera.param: the type of data differs from the result's
  %0 = "tessera.param"() {data = dense<1.0> : tensor<3xf32>} : () -> tensor<2xf32>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0121] tessera.opt.state: init has a number that is not finite
  %0 = tessera.opt.state "w.m" of "w" kind "adam_m" init = #tessera.constant<1.0e999> : tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // CHECK: [TSR-0201] tessera.assign: the target has no name
  tessera.assign %a to "" : tensor<2xf32>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0112] tessera.step: element type of the result is i32 in 'tensor<{{.*}}>', must be i64; did you mean
  %0 = tessera.step : tensor<i32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // CHECK: [TSR-0302] tessera.minimize: the loss is 2xf32, needs a scalar f32 or f64
  tessera.minimize %a {optimizer = #tessera.adamw<lr = 0.1, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<f32>) {
  // CHECK: [TSR-0129] tessera.minimize: beta2 is 1, needs 0 <= beta2 < 1
  tessera.minimize %a {optimizer = #tessera.adamw<lr = 0.1, beta1 = 0.9, beta2 = 1.0, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<f32>) {
  // CHECK: [[@LINE+1]]:90: error: [TSR-0001] expected '='
  tessera.minimize %a {optimizer = #tessera.adamw<lr = 0.1, beta1 = 0.9, beta2 = 0.5, eps : 1.0e-8>} : tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>, %t: tensor<1xi64>) {
  // CHECK: [TSR-0143] tessera.adamw: the step is 1xi64, needs a scalar i64
  %0:3 = tessera.adamw %a, %a, %a, %a, %t {optimizer = #tessera.adamw<lr = 0.1, beta1 = 0.9, beta2 = 0.5, eps = 1.0e-8, weight_decay = 0.0>} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<1xi64>)
  return
}

// -----

func.func @f(%a: tensor<f32>) {
  // CHECK: [TSR-0129] tessera.minimize: clip_norm is 0, needs a finite clip_norm > 0
  tessera.minimize %a {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>, clip_norm = 0.0} : tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<f32>) {
  // CHECK: [TSR-0129] tessera.minimize: clip_norm is -1, needs a finite clip_norm > 0
  tessera.minimize %a {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>, clip_norm = -1.0} : tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<f32>) {
  // CHECK: [TSR-0129] tessera.minimize: clip_norm is nan, needs a finite clip_norm > 0
  tessera.minimize %a {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>, clip_norm = 0x7FF8000000000000 : f64} : tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<f32>) {
  // CHECK: [TSR-0129] tessera.minimize: clip_norm is inf, needs a finite clip_norm > 0
  tessera.minimize %a {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>, clip_norm = 0x7FF0000000000000 : f64} : tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<f32>) {
  // CHECK: [TSR-0109] tessera.minimize: clip_norm is not a floating-point number; write 1.0 for 1
  tessera.minimize %a {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>, clip_norm = 1} : tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<f32>) {
  // CHECK: [TSR-0113] tessera.minimize: result has 1 dims
  %0 = tessera.minimize %a {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>} : tensor<f32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // CHECK: [TSR-0143] tessera.sgd: the scale is 2xf32, needs a scalar
  %0:2 = tessera.sgd %a, %a, %a, %a {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>} : tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>, %s: tensor<f64>) {
  // CHECK: [TSR-0111] tessera.sgd: element types differ: the parameter is f32, the scale is f64
  %0:2 = tessera.sgd %a, %a, %a, %s {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f64>)
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0149] tessera.constant: the value is not dense<...>
  %0 = tessera.constant sparse<0, 1.0> : tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2x0xf32>) {
  // CHECK: [TSR-0139] tessera.argmax: dim 1 is 0, so there is no largest element
  %0 = tessera.argmax %a {axis = 1} : tensor<2x0xf32> -> tensor<2xi64>
  return
}

// -----

func.func @f(%a: tensor<4294967296x4294967296xf32>) {
  // CHECK: [TSR-0142] tessera.exp: operand 0 has more than 2^63 bytes: 4294967296x4294967296xf32
  %0 = tessera.exp %a : tensor<4294967296x4294967296xf32>
  return
}

// -----

func.func @f(%a: tensor<1x1x1x1x1x1x1x1x1xf32>) {
  // CHECK: [TSR-0108] tessera.exp: operand 0 has more than 8 dims
  %0 = tessera.exp %a : tensor<1x1x1x1x1x1x1x1x1xf32>
  return
}

// -----

func.func @f(%a: tensor<2xi24>) {
  // CHECK: [TSR-0104] 'tessera.exp' op operand #0 must be ranked tensor of f64, f32, bf16, f16, i64, i32, i16, i8, ui64, ui32, ui16, ui8, i1, f8E4M3FN, f8E5M2 or f8E8M0FNU values, but got 'tensor<2xi24>'
  %0 = tessera.exp %a : tensor<2xi24>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // CHECK: [TSR-0009] custom op 'tessera.unknown' is unknown
  %0 = tessera.unknown %a : tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<3xi64>) {
  // CHECK: [TSR-0104] tessera.pow: element type of lhs is i64, needs one of f64, f32, bf16, f16
  %0 = tessera.pow %a, %a : tensor<3xi64>
  return
}

// -----

func.func @f(%a: tensor<3xf32>, %b: tensor<3xf64>) {
  // CHECK: [TSR-0111] tessera.pow: element types differ: lhs is f32, rhs is f64
  %0 = tessera.pow %a, %b : (tensor<3xf32>, tensor<3xf64>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xi32>) {
  // CHECK: [TSR-0104] tessera.expm1: element type of the operand is i32, needs one of f64, f32, bf16, f16
  %0 = tessera.expm1 %a : tensor<3xi32>
  return
}

// -----

func.func @f(%a: tensor<3xi32>) {
  // CHECK: [TSR-0104] tessera.log1p: element type of the operand is i32, needs one of f64, f32, bf16, f16
  %0 = tessera.log1p %a : tensor<3xi32>
  return
}

// -----

func.func @f(%a: tensor<3xi32>) {
  // CHECK: [TSR-0104] tessera.rsqrt: element type of the operand is i32, needs one of f64, f32, bf16, f16
  %0 = tessera.rsqrt %a : tensor<3xi32>
  return
}

// -----

func.func @f(%a: tensor<3xi32>) {
  // CHECK: [TSR-0104] tessera.erf: element type of the operand is i32, needs one of f64, f32, bf16, f16
  %0 = tessera.erf %a : tensor<3xi32>
  return
}

// -----

func.func @f(%a: tensor<3xi32>) {
  // CHECK: [TSR-0104] tessera.sigmoid: element type of the operand is i32, needs one of f64, f32, bf16, f16
  %0 = tessera.sigmoid %a : tensor<3xi32>
  return
}

// -----

func.func @f(%a: tensor<3xi32>) {
  // CHECK: [TSR-0104] tessera.softplus: element type of the operand is i32, needs one of f64, f32, bf16, f16
  %0 = tessera.softplus %a : tensor<3xi32>
  return
}

// -----

func.func @f(%a: tensor<3xi32>) {
  // CHECK: [TSR-0104] tessera.silu: element type of the operand is i32, needs one of f64, f32, bf16, f16
  %0 = tessera.silu %a : tensor<3xi32>
  return
}

// -----

func.func @f(%a: tensor<3xi32>) {
  // CHECK: [TSR-0104] tessera.gelu: element type of the operand is i32, needs one of f64, f32, bf16, f16
  %0 = tessera.gelu %a : tensor<3xi32>
  return
}

// -----

func.func @f(%a: tensor<3xi32>) {
  // CHECK: [TSR-0104] tessera.floor: element type of the operand is i32, needs one of f64, f32, bf16, f16
  %0 = tessera.floor %a : tensor<3xi32>
  return
}

// -----

func.func @f(%a: tensor<3xui8>) {
  // CHECK: [TSR-0104] tessera.sign: element type of the operand is ui8, needs one of f64, f32, i64, i32
  %0 = tessera.sign %a : tensor<3xui8>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // CHECK: [TSR-0141] tessera.gelu: approximate is "sigmoid", needs "none" or "tanh"
  %0 = tessera.gelu %a {approximate = "sigmoid"} : tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // CHECK: [TSR-0141] tessera.gelu: approximate is "tanh", needs "none" with slope
  %0 = tessera.gelu %a {approximate = "tanh", slope} : tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xi1>) {
  // CHECK: [TSR-0104] tessera.clamp: element type of the operand is i1, needs one of f64, f32, i64, i32, ui8, bf16, f16, i8
  %0 = tessera.clamp %a {low = 0.0, high = 1.0} : tensor<3xi1>
  return
}

// -----

func.func @f(%a: tensor<3xi8>) {
  // CHECK: tessera.clamp: high is 128, which i8 cannot hold
  %0 = tessera.clamp %a {low = -128.0, high = 128.0} : tensor<3xi8>
  return
}

// -----

func.func @f(%a: tensor<3xui8>) {
  // CHECK: tessera.clamp: low is -1, which ui8 cannot hold
  %0 = tessera.clamp %a {low = -1.0, high = 3.0} : tensor<3xui8>
  return
}

// -----

func.func @f(%a: tensor<3xi64>) {
  // CHECK: tessera.clamp: low is 0.5, which i64 cannot hold
  %0 = tessera.clamp %a {low = 0.5, high = 3.0} : tensor<3xi64>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // CHECK: [TSR-0130] tessera.clamp: low is 2, high is 1; low must not be above high
  %0 = tessera.clamp %a {low = 2.0, high = 1.0} : tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // CHECK: [TSR-0130] tessera.clamp: low is nan, high is 1; low must not be above high
  %0 = tessera.clamp %a {low = 0x7FF8000000000000 : f64, high = 1.0} : tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // CHECK: 'tessera.clamp' op requires attribute 'high'
  %0 = tessera.clamp %a {low = 2.0} : tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // CHECK: [TSR-0104] tessera.and: element type of lhs is f32, needs one of i64, i32, i1, ui8, i8, i16, ui16, ui32, ui64
  %0 = tessera.and %a, %a : tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // CHECK: [TSR-0104] tessera.or: element type of lhs is f32, needs one of i64, i32, i1, ui8, i8, i16, ui16, ui32, ui64
  %0 = tessera.or %a, %a : tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // CHECK: [TSR-0104] tessera.xor: element type of lhs is f32, needs one of i64, i32, i1, ui8, i8, i16, ui16, ui32, ui64
  %0 = tessera.xor %a, %a : tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xi1>) {
  // CHECK: [TSR-0104] tessera.shift_left: element type of lhs is i1, needs one of i64, i32, ui8, i8, i16, ui16, ui32, ui64
  %0 = tessera.shift_left %a, %a : tensor<3xi1>
  return
}

// -----

func.func @f(%a: tensor<3xi32>, %b: tensor<3xui32>) {
  // CHECK: [TSR-0111] tessera.shift_right: element types differ: lhs is i32, rhs is ui32
  %0 = tessera.shift_right %a, %b : (tensor<3xi32>, tensor<3xui32>) -> tensor<3xi32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // CHECK: tessera.bitcast: element type of the result is i64, must be a number of 32 bits, as f32 is
  %0 = tessera.bitcast %a : tensor<3xf32> -> tensor<3xi64>
  return
}

// -----

func.func @f(%a: tensor<3xui8>) {
  // CHECK: tessera.bitcast: element type of the result is i1, must be a number of 8 bits, as ui8 is
  %0 = tessera.bitcast %a : tensor<3xui8> -> tensor<3xi1>
  return
}

// -----

func.func @f(%a: tensor<3xi1>) {
  // CHECK: [TSR-0104] tessera.bitcast: element type of the operand is i1, needs one of f64, f32, i64, i32, ui8, bf16, f16, i8, i16, ui16, ui32, ui64
  %0 = tessera.bitcast %a : tensor<3xi1> -> tensor<3xui8>
  return
}

// -----

func.func @f(%a: tensor<3xi1>, %b: tensor<3xi32>) {
  // CHECK: [TSR-0111] tessera.and: element types differ: lhs is i1, rhs is i32
  %0 = tessera.and %a, %b : (tensor<3xi1>, tensor<3xi32>) -> tensor<3xi1>
  return
}

// -----

func.func @f(%a: tensor<3xi1>, %b: tensor<2xi1>) {
  // CHECK: [TSR-0103] tessera.or: shapes do not broadcast
  %0 = tessera.or %a, %b : (tensor<3xi1>, tensor<2xi1>) -> tensor<3xi1>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // CHECK: [TSR-0104] tessera.not: element type of the operand is f32, needs one of i64, i32, i1, ui8, i8, i16, ui16, ui32, ui64
  %0 = tessera.not %a : tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xi1>) {
  // CHECK: [TSR-0104] tessera.reduce_min: element type of the operand is i1, needs one of f64, f32, i64, i32
  %0 = tessera.reduce_min %a {axes = [1]} : tensor<2x3xi1> -> tensor<2xi1>
  return
}

// -----

func.func @f(%a: tensor<2x3xi1>) {
  // CHECK: [TSR-0104] tessera.reduce_prod: element type of the operand is i1, needs one of f64, f32, i64, i32
  %0 = tessera.reduce_prod %a {axes = [1]} : tensor<2x3xi1> -> tensor<2xi1>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0128] tessera.iota: 129 positions along axis 1 do not fit into i8
  %0 = tessera.iota {axis = 1} : tensor<2x129xi8>
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>) {
  // CHECK: [TSR-0125] tessera.slice: 3 elements from 2 by 2 do not fit into dim 1 of 6
  %0 = tessera.slice %a {start = [0, 2], size = [4, 3], stride = [1, 2]} : tensor<4x6xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>) {
  // CHECK: [TSR-0119] tessera.slice: start needs 2 integers
  %0 = tessera.slice %a {start = [0], size = [4, 3]} : tensor<4x6xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>) {
  // CHECK: [TSR-0120] tessera.slice: start entry 1 is 9223372036854775807, needs at most 2305843009213693951
  %0 = tessera.slice %a {start = [0, 9223372036854775807], size = [4, 3]} : tensor<4x6xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%a: tensor<f32>) {
  // CHECK: [TSR-0147] tessera.scan: length is 281474976710657, needs 0 to 281474976710656
  %0 = "tessera.scan"(%a) ({
  ^bb0(%x: tensor<f32>):
    tessera.yield %x : tensor<f32>
  }) {carried = 1 : i64, length = 281474976710657 : i64} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>) {
  // CHECK: [TSR-0120] tessera.pad: low entry 1 is -1, needs at least 0
  %0 = tessera.pad %a {low = [0, -1], high = [0, 0]} : tensor<4x6xf32> -> tensor<4x5xf32>
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>, %b: tensor<3x6xf32>) {
  // CHECK: [TSR-0126] tessera.concat: operand 1 is 3x6xf32, operand 0 is 4x6xf32; only dim 1 may differ
  %0 = tessera.concat %a, %b {axis = 1} : (tensor<4x6xf32>, tensor<3x6xf32>) -> tensor<4x12xf32>
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>) {
  // CHECK: [TSR-0127] tessera.split: the parts have 5 elements along axis 1, the operand is 4x6xf32
  %0:2 = tessera.split %a {axis = 1} : tensor<4x6xf32> -> (tensor<4x2xf32>, tensor<4x3xf32>)
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>, %i: tensor<2xf32>) {
  // CHECK: [TSR-0104] tessera.gather: element type of indices is f32, needs one of i64, i32
  %0 = tessera.gather %a, %i {axis = 0} : (tensor<4x6xf32>, tensor<2xf32>) -> tensor<2x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>, %i: tensor<2xi64>, %u: tensor<2x6xf32>) {
  // CHECK: tessera.scatter: how is "sum", needs "set", "max", "min" or "mul"
  %0 = tessera.scatter %a, %i, %u {axis = 0, how = "sum"} : (tensor<4x6xf32>, tensor<2xi64>, tensor<2x6xf32>)
  return
}

// -----

func.func @f(%a: tensor<4x6xi8>, %i: tensor<2xi64>, %u: tensor<2x6xi8>) {
  // CHECK: [TSR-0104] tessera.scatter: element type of the operand is i8, needs one of f64, f32, i64, i32, bf16, f16
  %0 = tessera.scatter %a, %i, %u {axis = 0, how = "mul"} : (tensor<4x6xi8>, tensor<2xi64>, tensor<2x6xi8>)
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>, %i: tensor<2xi64>, %u: tensor<2x5xf32>) {
  // CHECK: [TSR-0118] tessera.scatter: updates is 2x5xf32, must be 2x6xf32
  %0 = tessera.scatter %a, %i, %u {axis = 0} : (tensor<4x6xf32>, tensor<2xi64>, tensor<2x5xf32>)
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>, %i: tensor<2xi64>, %u: tensor<2x5xf32>) {
  // CHECK: [TSR-0118] tessera.scatter_add: updates is 2x5xf32, must be 2x6xf32
  %0 = tessera.scatter_add %a, %i, %u {axis = 0} : (tensor<4x6xf32>, tensor<2xi64>, tensor<2x5xf32>)
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>) {
  // CHECK: [TSR-0106] tessera.cumsum: axis 2 is outside [0, 2)
  %0 = tessera.cumsum %a {axis = 2} : tensor<4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>) {
  // CHECK: [TSR-0134] tessera.top_k: k is 7, needs 0 to 6, the dim it picks from
  %0:2 = tessera.top_k %a {axis = 1, k = 7} : tensor<4x6xf32> -> (tensor<4x7xf32>, tensor<4x7xi64>)
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>, %s: tensor<5xf32>) {
  // CHECK: [TSR-0137] tessera.layernorm_safe: scale (5xf32) does not broadcast to 4x6xf32
  %0 = tessera.layernorm_safe %a, %s {axes = [1]} : (tensor<4x6xf32>, tensor<5xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x6xf32>, %s: tensor<6xf32>, %m: tensor<4xf32>) {
  // CHECK: [TSR-0118] tessera.batch_norm: mean is 4xf32, must be 6xf32
  %0 = tessera.batch_norm %a, %s, %s, %m, %s {axis = 1} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x5x8xf32>, %k: tensor<2x2x7x8xf32>) {
  // CHECK: [TSR-0122] tessera.attention: 3 query heads are not a multiple of 2 key heads
  %0 = tessera.attention %q, %k, %k : (tensor<2x3x5x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>) -> tensor<2x3x5x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x2x5x8xf32>, %k: tensor<2x2x7x8xf32>, %m: tensor<7x5xi1>) {
  // CHECK: [TSR-0136] tessera.attention: the mask (7x5xi1) does not broadcast to 2x2x5x7xf32
  %0 = tessera.attention %q, %k, %k, %m : (tensor<2x2x5x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>, tensor<7x5xi1>) -> tensor<2x2x5x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x2x5x8xf32>, %e: tensor<3xi64>, %s: tensor<i64>) {
  // CHECK: [TSR-0129] tessera.attention: dropout is 1, needs 0 <= dropout < 1
  %0 = tessera.attention %q, %q, %q {dropout = 1.0} : tensor<2x2x5x8xf32> -> tensor<2x2x5x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x2x5x8xf32>, %e: tensor<3xi64>, %s: tensor<i64>) {
  // CHECK: [TSR-0132] tessera.attention: stream is -1, needs 0 to 2^32 - 1
  %0 = tessera.attention %q, %q, %q {dropout = 0.5, stream = -1 : i64} : tensor<2x2x5x8xf32> -> tensor<2x2x5x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x2x5x8xf32>, %e: tensor<3xi64>, %s: tensor<i64>) {
  // CHECK: [TSR-0102] tessera.attention: batches differ: query dim 0 is 2, heads dim 0 is 3; they must be equal
  %0 = tessera.attention %q, %q, %q, %e, %s, %s {dropout = 0.5, stream = 1 : i64} : (tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>, tensor<3xi64>, tensor<i64>, tensor<i64>) -> tensor<2x2x5x8xf32>
  return
}

// -----

func.func @f(%q: tensor<1x1x4294967296x0xf32>, %k: tensor<1x1x4294967296x0xf32>) {
  // CHECK: [TSR-0310] tessera.attention: 4294967296 queries and 4294967296 keys have more than 2^63 weights
  %0 = tessera.attention %q, %k, %k {dropout = 0.5, stream = 1 : i64} : tensor<1x1x4294967296x0xf32> -> tensor<1x1x4294967296x0xf32>
  return
}

// -----

func.func @f(%e: tensor<4xi64>, %s: tensor<i64>) {
  // CHECK: [TSR-0132] tessera.philox: has both normal and shared; 15 bits are not enough for a normal number
  %0 = tessera.philox %e, %s, %s {stream = 1 : i64, normal, shared} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%q: tensor<2x2x5x8xf32>, %e: tensor<3xi64>, %s: tensor<i64>) {
  // CHECK: [TSR-0117] tessera.attention: has 6 operands, needs 3 to 4
  %0 = tessera.attention %q, %q, %q, %e, %s, %s {causal} : (tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>, tensor<3xi64>, tensor<i64>, tensor<i64>) -> tensor<2x2x5x8xf32>
  return
}

// -----

func.func @logsumexp_of_flags(%q: tensor<2x2x5x8xbf16>, %l: tensor<2x2x5xi1>) {
  // CHECK: [TSR-0111] tessera.attention_grad: the logsumexp is of i1, needs f32
  %0:3 = tessera.attention_grad %q, %q, %q, %q, %l, %q : (tensor<2x2x5x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5xi1>, tensor<2x2x5x8xbf16>) -> (tensor<2x2x5x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x8xbf16>)
  return
}

// -----

func.func @f(%x: tensor<4x7xf32>) {
  // CHECK: [TSR-0122] tessera.rotary: the last dim is 7, needs to be even
  %0 = tessera.rotary %x {axis = 0} : tensor<4x7xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x4x3xf32>, %f: tensor<5x3x3x8xf32>) {
  // CHECK: [TSR-0123] tessera.conv2d: a window of 5 by 1 does not fit into dim 1 of 4 with 0 before and 0 after it
  %0 = tessera.conv2d %x, %f {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<1x4x4x3xf32>, tensor<5x3x3x8xf32>) -> tensor<1x4x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x4x3xf32>, %f: tensor<3x3x2x8xf32>) {
  // CHECK: [TSR-0140] tessera.conv2d: channels of the image, and of the filter times groups: 3 and 2
  %0 = tessera.conv2d %x, %f {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<1x4x4x3xf32>, tensor<3x3x2x8xf32>) -> tensor<1x2x2x8xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x4x3xf32>) {
  // CHECK: [TSR-0124] tessera.max_pool2d: padding of 2 and 0 is not below the window of 2
  %0 = tessera.max_pool2d %x {window = [2, 2], strides = [2, 2], padding = [2, 0, 0, 0]} : tensor<1x4x4x3xf32> -> tensor<1x3x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: [TSR-0129] tessera.dropout: rate is 1, needs 0 <= rate < 1
  %0 = tessera.dropout %x {rate = 1.0} : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%c: tensor<2xi1>, %x: tensor<4xf32>) {
  // CHECK: [TSR-0143] tessera.if: the condition is 2xi1, needs a scalar i1
  %0 = tessera.if %c {
    tessera.yield %x : tensor<4xf32>
  } else {
    tessera.yield %x : tensor<4xf32>
  } : tensor<2xi1> -> tensor<4xf32>
  return
}

// -----

func.func @f(%c: tensor<i1>, %x: tensor<4xf32>) {
  // CHECK: [TSR-0145] tessera.if: values of a branch: 0, must be 1
  %0 = tessera.if %c {
    tessera.yield %x : tensor<4xf32>
  } else {
    tessera.yield
  } : tensor<i1> -> tensor<4xf32>
  return
}

// -----

func.func @f(%s: tensor<4xf32>) {
  // CHECK: [TSR-0147] tessera.scan: has neither sequences nor a length
  %0 = tessera.scan %s {
  ^bb0(%c: tensor<4xf32>):
    tessera.yield %c : tensor<4xf32>
  } {carried = 1 : i64} : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // CHECK: [TSR-0144] tessera.yield: is outside tessera.if, while, scan, jvp, vjp and custom_derivative, and regions of tessera_sr
  tessera.yield %x : tensor<2xf32>
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0129] tessera.sgd: momentum is 1, needs 0 <= momentum < 1
  %0:2 = tessera.sgd %p, %p, %p {optimizer = #tessera.sgd<lr = 0.1, momentum = 1.0, weight_decay = 0.0>} : tensor<4xf32>
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0109] tessera.sgd: lr_schedule is not a dictionary
  %0:2 = tessera.sgd %p, %p, %p {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>, lr_schedule = 1} : tensor<4xf32>
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0109] tessera.sgd: lr_schedule has no kind
  %0:2 = tessera.sgd %p, %p, %p {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>, lr_schedule = {warmup_steps = 3}} : tensor<4xf32>
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0109] tessera.sgd: lr_schedule: 'kind' is not one of kind
  %0:2 = tessera.sgd %p, %p, %p {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>, lr_schedule = {kind = "sine"}} : tensor<4xf32>
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0109] tessera.sgd: lr_schedule: 'steps' is not one of kind
  %0:2 = tessera.sgd %p, %p, %p {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>, lr_schedule = {kind = "cosine", steps = 3}} : tensor<4xf32>
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0109] tessera.sgd: lr_schedule: 'warmup_steps' is not one of kind
  %0:2 = tessera.sgd %p, %p, %p {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>, lr_schedule = {kind = "cosine", warmup_steps = 3.0}} : tensor<4xf32>
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0120] tessera.sgd: lr_schedule: warmup_steps is -1, needs at least 0
  %0:2 = tessera.sgd %p, %p, %p {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>, lr_schedule = {kind = "constant", warmup_steps = -1}} : tensor<4xf32>
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0120] tessera.sgd: lr_schedule: total_steps is 3, needs more than the 3 warmup_steps
  %0:2 = tessera.sgd %p, %p, %p {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>, lr_schedule = {kind = "linear", warmup_steps = 3, total_steps = 3}} : tensor<4xf32>
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0129] tessera.sgd: lr_schedule: final is 1.5, needs 0 <= final <= 1
  %0:2 = tessera.sgd %p, %p, %p {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>, lr_schedule = {kind = "linear", total_steps = 3, final = 1.5}} : tensor<4xf32>
  return
}

// -----

func.func @f(%a: tensor<4xui8>) {
  // CHECK: [TSR-0128] tessera.pad: value is -1, which ui8 cannot hold
  %0 = tessera.pad %a {low = [1], high = [0], value = -1.0} : tensor<4xui8> -> tensor<5xui8>
  return
}

// -----

func.func @f(%a: tensor<4611686018427387904x2xf32>) {
  // CHECK: [TSR-0142] tessera.exp: operand 0 has more than 2^63 bytes: 4611686018427387904x2xf32
  %0 = tessera.exp %a : tensor<4611686018427387904x2xf32>
  return
}

// -----

func.func @f(%a: tensor<0x4611686018427387904x4xf32>) {
  // CHECK: [TSR-0142] tessera.exp: operand 0 has more than 2^63 bytes: 0x4611686018427387904x4xf32
  %0 = tessera.exp %a : tensor<0x4611686018427387904x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: [TSR-0153] tessera.jvp: 0 operands after the 1 that the region takes, must be 1: a tangent for each float
  %0:2 = tessera.jvp %x {
  ^bb0(%a: tensor<4xf32>):
    tessera.yield %a : tensor<4xf32>
  } : tensor<4xf32> -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %n: tensor<i64>) {
  // CHECK: [TSR-0153] tessera.jvp: 2 operands after the 2 that the region takes, must be 1: a tangent for each float
  %0:2 = tessera.jvp %x, %n, %x, %n {
  ^bb0(%a: tensor<4xf32>, %k: tensor<i64>):
    tessera.yield %a : tensor<4xf32>
  } : (tensor<4xf32>, tensor<i64>, tensor<4xf32>, tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %t: tensor<5xf32>) {
  // CHECK: [TSR-0153] tessera.jvp: tangent 0 is 5xf32, must be 4xf32
  %0:2 = tessera.jvp %x, %t {
  ^bb0(%a: tensor<4xf32>):
    tessera.yield %a : tensor<4xf32>
  } : (tensor<4xf32>, tensor<5xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %g: tensor<4xf64>) {
  // CHECK: [TSR-0153] tessera.vjp: cotangent 0 is 4xf64, must be 4xf32
  %0:2 = tessera.vjp %x, %g {
  ^bb0(%a: tensor<4xf32>):
    tessera.yield %a : tensor<4xf32>
  } : (tensor<4xf32>, tensor<4xf64>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: [TSR-0145] tessera.vjp: results: 1, must be 2
  %0 = tessera.vjp %x, %x {
  ^bb0(%a: tensor<4xf32>):
    tessera.yield %a : tensor<4xf32>
  } : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: [TSR-0105] tessera.vjp: result dim 0 is 5 in 'tensor<5xf32>', must be 4; did you mean 'tensor<4xf32>'?
  %0:2 = tessera.vjp %x, %x {
  ^bb0(%a: tensor<4xf32>):
    tessera.yield %a : tensor<4xf32>
  } : tensor<4xf32> -> (tensor<4xf32>, tensor<5xf32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: [TSR-0145] tessera.jvp: arguments of the function: 2, must be 1
  %0:2 = tessera.jvp %x {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    tessera.yield %a : tensor<4xf32>
  } : tensor<4xf32> -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: [TSR-0146] tessera.jvp: argument 0 is 5xf32, must be 4xf32
  %0:2 = tessera.jvp %x, %x {
  ^bb0(%a: tensor<5xf32>):
    tessera.yield %a : tensor<5xf32>
  } : tensor<4xf32> -> (tensor<5xf32>, tensor<5xf32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: [TSR-0154] tessera.custom_derivative: has neither `vjp` nor `jvp`
  %0 = tessera.custom_derivative %x {
  ^bb0(%a: tensor<4xf32>):
    tessera.yield %a : tensor<4xf32>
  } : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: [TSR-0145] tessera.custom_derivative: arguments of vjp: 2, must be 3
  %0 = tessera.custom_derivative %x {
  ^bb0(%a: tensor<4xf32>):
    tessera.yield %a : tensor<4xf32>
  } vjp {
  ^bb0(%a: tensor<4xf32>, %g: tensor<4xf32>):
    tessera.yield %g : tensor<4xf32>
  } : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %n: tensor<i64>) {
  // CHECK: [TSR-0145] tessera.custom_derivative: values of vjp: 2, must be 1
  %0 = tessera.custom_derivative %x, %n {
  ^bb0(%a: tensor<4xf32>, %k: tensor<i64>):
    tessera.yield %a : tensor<4xf32>
  } vjp {
  ^bb0(%a: tensor<4xf32>, %k: tensor<i64>, %y: tensor<4xf32>, %g: tensor<4xf32>):
    tessera.yield %g, %k : tensor<4xf32>, tensor<i64>
  } : (tensor<4xf32>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: [TSR-0146] tessera.custom_derivative: value of jvp 0 is f32, must be 4xf32
  %0 = tessera.custom_derivative %x {
  ^bb0(%a: tensor<4xf32>):
    tessera.yield %a : tensor<4xf32>
  } jvp {
  ^bb0(%a: tensor<4xf32>, %y: tensor<4xf32>, %t: tensor<4xf32>):
    %s = tessera.sum %t {axes = [0]} : tensor<4xf32> -> tensor<f32>
    tessera.yield %s : tensor<f32>
  } : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: [TSR-0144] tessera.custom_derivative: vjp must end with tessera.yield
  %0 = "tessera.custom_derivative"(%x) ({
  ^bb0(%a: tensor<4xf32>):
    tessera.yield %a : tensor<4xf32>
  }, {
  ^bb0(%a: tensor<4xf32>, %y: tensor<4xf32>, %g: tensor<4xf32>):
    "tessera.neg"(%g) : (tensor<4xf32>) -> tensor<4xf32>
  }, {
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0156] tessera.sizes: values entry 1 is 'N +', which is not an expression, or below 0 for all sizes
  %0 = tessera.sizes {values = [3, "N +"]} : tensor<2xi64>
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0105] tessera.sizes: result dim 0 is 3 in 'tensor<3xi64>', must be 2
  %0 = tessera.sizes {values = [3, "N"]} : tensor<3xi64>
  return
}
