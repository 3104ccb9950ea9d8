// SPDX-License-Identifier: Apache-2.0
// Every op, printed as it is read; the generic form reads back to the same.
// RUN: tessera-opt %s | FileCheck %s
// RUN: tessera-opt --mlir-print-op-generic %s | tessera-opt | FileCheck %s
// RUN: tessera-opt --mlir-print-op-generic %s | FileCheck %s --check-prefix=GENERIC

// CHECK-LABEL: func.func @tensors
// GENERIC: "tessera.param"() <{init = #tessera.uniform<-1.0, 0.5> : tensor<4x3xf32>, name = "w"}> : () -> tensor<4x3xf32>
func.func @tensors(%x: tensor<4x3xf32>) {
  // CHECK: tessera.param "w" init = #tessera.uniform<-1.0, 0.5> : tensor<4x3xf32>
  %w = tessera.param "w" init = #tessera.uniform<-1.0, 0.5> : tensor<4x3xf32>
  // CHECK: tessera.param "n" init = #tessera.normal<0.0, 0.02> : tensor<2x?xf64>
  %n = tessera.param "n" init = #tessera.normal<0.0, 0.02> : tensor<2x?xf64>
  // CHECK: tessera.param "c" data = dense<[1, -2]> : tensor<2xi32>
  %c = tessera.param "c" data = dense<[1, -2]> : tensor<2xi32>
  // CHECK: tessera.param : tensor<*xf16>
  %p = "tessera.param"() : () -> tensor<*xf16>
  // CHECK: tessera.opt.state "w.adam_m" of "w" kind "adam_m" init = #tessera.constant<0.0> : tensor<4x3xf32>
  %m = tessera.opt.state "w.adam_m" of "w" kind "adam_m" init = #tessera.constant<0.0> : tensor<4x3xf32>
  // CHECK: tessera.step : tensor<i64>
  %t = tessera.step : tensor<i64>
  // CHECK: tessera.adamw %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {optimizer = #tessera.adamw<lr = 0.001, weight_decay = 0.0>} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<i64>)
  %new:3 = tessera.adamw %w, %x, %m, %m, %t {optimizer = #tessera.adamw<lr = 0.001, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<i64>)
  %scale = tessera.constant dense<0.5> : tensor<f32>
  // CHECK: tessera.adamw %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {{{.*}}} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<i64>, tensor<f32>)
  %scaled:3 = tessera.adamw %w, %x, %m, %m, %t, %scale {optimizer = #tessera.adamw<lr = 0.001, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<i64>, tensor<f32>)
  // CHECK: tessera.sgd %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {{{.*}}} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<f32>)
  %stepped:2 = tessera.sgd %w, %x, %m, %scale {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<f32>)
  // CHECK: tessera.assign %{{.*}} to "w" : tensor<4x3xf32>
  tessera.assign %new#0 to "w" : tensor<4x3xf32>
  // CHECK: tessera.minimize %{{.*}} {optimizer = #tessera.adamw<
  %loss = tessera.sum %x {axes = [0, 1]} : tensor<4x3xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 0.001, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  // CHECK: %{{.*}} = tessera.minimize %{{.*}} {clip_norm = 1.000000e+00 : f64, optimizer = #tessera.sgd<{{.*}}>} : tensor<f32>
  %norm = tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>, clip_norm = 1.0} : tensor<f32>
  return
}

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<4x3xf32>, %r: tensor<3xf32>, %i: tensor<i64>, %b: tensor<4x3xui8>) {
  // CHECK: tessera.constant dense<[0.000000e+00, 1.000000e+00, 2.000000e+00]> : tensor<3xf32>
  %k = tessera.constant dense<[0.0, 1.0, 2.0]> : tensor<3xf32>
  // CHECK: tessera.add %{{.*}}, %{{.*}} : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %0 = tessera.add %x, %r : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  // CHECK: tessera.sub
  %1 = tessera.sub %r, %x : (tensor<3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  // CHECK: tessera.mul
  %2 = tessera.mul %x, %x : tensor<4x3xf32>
  // CHECK: tessera.div
  %3 = tessera.div %i, %i : tensor<i64>
  // CHECK: tessera.max
  %4 = tessera.max %x, %r : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  // CHECK: tessera.min
  %5 = tessera.min %x, %r : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  // CHECK: tessera.ipow %{{.*}}, %{{.*}} : (tensor<4x3xf32>, tensor<i64>) -> tensor<4x3xf32>
  %6 = tessera.ipow %x, %i : (tensor<4x3xf32>, tensor<i64>) -> tensor<4x3xf32>
  // CHECK-NEXT: tessera.neg %{{.*}} : tensor<4x3xf32>
  %7 = tessera.neg %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.relu
  %8 = tessera.relu %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.exp
  %9 = tessera.exp %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.log
  %10 = tessera.log %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.tanh
  %11 = tessera.tanh %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.sqrt
  %12 = tessera.sqrt %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.abs
  %13 = tessera.abs %i : tensor<i64>
  // CHECK-NEXT: tessera.compare le %{{.*}}, %{{.*}} : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xi1>
  %14 = tessera.compare le %x, %r : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xi1>
  // CHECK-NEXT: tessera.where %{{.*}} : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %15 = tessera.where %14, %x, %r : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: tessera.cast %{{.*}} : tensor<4x3xui8> -> tensor<4x3xf32>
  %16 = tessera.cast %b : tensor<4x3xui8> -> tensor<4x3xf32>
  // CHECK-NEXT: tessera.pow %{{.*}}, %{{.*}} : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %17 = tessera.pow %x, %r : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: tessera.expm1 %{{.*}} : tensor<4x3xf32>
  %18 = tessera.expm1 %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.log1p %{{.*}} : tensor<4x3xf32>
  %19 = tessera.log1p %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.rsqrt %{{.*}} : tensor<4x3xf32>
  %20 = tessera.rsqrt %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.erf %{{.*}} : tensor<4x3xf32>
  %21 = tessera.erf %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.sigmoid %{{.*}} : tensor<4x3xf32>
  %22 = tessera.sigmoid %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.silu %{{.*}} : tensor<4x3xf32>
  %23 = tessera.silu %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.softplus %{{.*}} : tensor<4x3xf32>
  %softplus = tessera.softplus %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.gelu %{{.*}} : tensor<4x3xf32>
  %24 = tessera.gelu %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.gelu %{{.*}} {approximate = "tanh"} : tensor<4x3xf32>
  %25 = tessera.gelu %x {approximate = "tanh"} : tensor<4x3xf32>
  // CHECK-NEXT: tessera.gelu %{{.*}} : tensor<4x3xf32>
  %26 = tessera.gelu %x {approximate = "none"} : tensor<4x3xf32>
  // CHECK-NEXT: tessera.gelu %{{.*}} {slope} : tensor<4x3xf32>
  %slope = tessera.gelu %x {slope} : tensor<4x3xf32>
  // CHECK-NEXT: tessera.sign %{{.*}} : tensor<4x3xf32>
  %27 = tessera.sign %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.floor %{{.*}} : tensor<4x3xf32>
  %28 = tessera.floor %x : tensor<4x3xf32>
  // CHECK-NEXT: tessera.clamp %{{.*}} {high = 6.000000e+00 : f64, low = -1.000000e+00 : f64} : tensor<4x3xf32>
  %29 = tessera.clamp %x {low = -1.0, high = 6.0} : tensor<4x3xf32>
  // CHECK-NEXT: tessera.and %{{.*}}, %{{.*}} : tensor<4x3xi1>
  %30 = tessera.and %14, %14 : tensor<4x3xi1>
  // CHECK-NEXT: tessera.or %{{.*}}, %{{.*}} : tensor<4x3xi1>
  %31 = tessera.or %14, %14 : tensor<4x3xi1>
  // CHECK-NEXT: tessera.xor %{{.*}}, %{{.*}} : tensor<4x3xi1>
  %32 = tessera.xor %14, %14 : tensor<4x3xi1>
  // CHECK-NEXT: tessera.not %{{.*}} : tensor<4x3xi1>
  %33 = tessera.not %14 : tensor<4x3xi1>
  // CHECK-NEXT: tessera.bitcast %{{.*}} : tensor<4x3xf32> -> tensor<4x3xui32>
  %34 = tessera.bitcast %x : tensor<4x3xf32> -> tensor<4x3xui32>
  // CHECK-NEXT: tessera.shift_left %{{.*}}, %{{.*}} : tensor<4x3xui32>
  %35 = tessera.shift_left %34, %34 : tensor<4x3xui32>
  // CHECK-NEXT: tessera.shift_right %{{.*}}, %{{.*}} : tensor<4x3xui32>
  %36 = tessera.shift_right %34, %35 : tensor<4x3xui32>
  // CHECK-NEXT: tessera.and %{{.*}}, %{{.*}} : tensor<4x3xui32>
  %37 = tessera.and %35, %36 : tensor<4x3xui32>
  return
}

// CHECK-LABEL: func.func @shapes
func.func @shapes(%x: tensor<4x3xf32>, %l: tensor<4xi64>) {
  // CHECK-NEXT: tessera.matmul %{{.*}} {transpose_b = true} : tensor<4x3xf32> -> tensor<4x4xf32>
  %0 = tessera.matmul %x, %x {transpose_b = true} : tensor<4x3xf32> -> tensor<4x4xf32>
  // CHECK-NEXT: tessera.matmul %{{.*}} {allow_tf32, transpose_b = true} : tensor<4x3xf32> -> tensor<4x4xf32>
  %tf32 = tessera.matmul %x, %x {transpose_b = true, allow_tf32} : tensor<4x3xf32> -> tensor<4x4xf32>
  // CHECK-NEXT: tessera.sum %{{.*}} {axes = [0]} : tensor<4x3xf32> -> tensor<3xf32>
  %1 = tessera.sum %x {axes = [0]} : tensor<4x3xf32> -> tensor<3xf32>
  // CHECK-NEXT: tessera.mean %{{.*}} {axes = [0, 1]} : tensor<4x3xf32> -> tensor<f32>
  %2 = tessera.mean %x {axes = [0, 1]} : tensor<4x3xf32> -> tensor<f32>
  // CHECK-NEXT: tessera.reduce_max %{{.*}} {axes = [1]} : tensor<4x3xf32> -> tensor<4xf32>
  %3 = tessera.reduce_max %x {axes = [1]} : tensor<4x3xf32> -> tensor<4xf32>
  // CHECK-NEXT: tessera.reduce_min %{{.*}} {axes = [1]} : tensor<4x3xf32> -> tensor<4xf32>
  %10 = tessera.reduce_min %x {axes = [1]} : tensor<4x3xf32> -> tensor<4xf32>
  // CHECK-NEXT: tessera.reduce_prod %{{.*}} {axes = [0]} : tensor<4x3xf32> -> tensor<3xf32>
  %11 = tessera.reduce_prod %x {axes = [0]} : tensor<4x3xf32> -> tensor<3xf32>
  // CHECK-NEXT: tessera.argmax %{{.*}} {axis = 1 : i64} : tensor<4x3xf32> -> tensor<4xi64>
  %4 = tessera.argmax %x {axis = 1 : i64} : tensor<4x3xf32> -> tensor<4xi64>
  // CHECK-NEXT: tessera.reshape %{{.*}} : tensor<4x3xf32> -> tensor<2x6xf32>
  %5 = tessera.reshape %x : tensor<4x3xf32> -> tensor<2x6xf32>
  // CHECK-NEXT: tessera.transpose %{{.*}} {permutation = [1, 0]} : tensor<4x3xf32> -> tensor<3x4xf32>
  %6 = tessera.transpose %x {permutation = [1, 0]} : tensor<4x3xf32> -> tensor<3x4xf32>
  // CHECK-NEXT: tessera.broadcast %{{.*}} : tensor<4x3xf32> -> tensor<2x4x3xf32>
  %7 = tessera.broadcast %x : tensor<4x3xf32> -> tensor<2x4x3xf32>
  // CHECK-NEXT: tessera.cross_entropy %{{.*}} : (tensor<4x3xf32>, tensor<4xi64>) -> tensor<4xf32>
  %8 = tessera.cross_entropy %x, %l : (tensor<4x3xf32>, tensor<4xi64>) -> tensor<4xf32>
  // CHECK-NEXT: tessera.cross_entropy_grad %{{.*}} : (tensor<4x3xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x3xf32>
  %9 = tessera.cross_entropy_grad %x, %l, %8 : (tensor<4x3xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x3xf32>
  return
}
