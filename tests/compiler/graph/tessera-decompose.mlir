// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-decompose -cse %s | FileCheck %s

// CHECK-LABEL: func.func @mean
func.func @mean(%x: tensor<8x4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[S:.*]] = tessera.sum %{{.*}} {axes = [0]} : tensor<8x4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %[[N:.*]] = tessera.constant dense<1.250000e-01> : tensor<f32>
  // CHECK-NEXT: %[[M:.*]] = tessera.mul %[[S]], %[[N]]
  // CHECK-NEXT: %[[R:.*]] = tessera.repair %{{.*}}, %[[M]] {axes = [0], of = "average"} : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: return %[[R]]
  %0 = tessera.mean %x {axes = [0]} : tensor<8x4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @sizes
func.func @sizes() -> tensor<3xi64> {
  // CHECK-NEXT: %[[C:.*]] = tessera.constant dense<[17, -1, 0]> : tensor<3xi64>
  // CHECK-NEXT: return %[[C]]
  %0 = tessera.sizes {values = [17, -1, 0]} : tensor<3xi64>
  return %0 : tensor<3xi64>
}

// CHECK-LABEL: func.func @adamw(
// CHECK-SAME: %[[P:.*]]: tensor<3xf32>, %[[G:.*]]: tensor<3xf32>, %[[M:.*]]: tensor<3xf32>, %[[V:.*]]: tensor<3xf32>)
func.func @adamw(%p: tensor<3xf32>, %g: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  // CHECK: %[[T:.*]] = tessera.step
  // CHECK: %[[LR:.*]] = tessera.constant dense<1.000000e-03> : tensor<f64>
  // CHECK: %[[B1:.*]] = tessera.constant dense<9.000000e-01> : tensor<f64>
  // CHECK: %[[B1T:.*]] = tessera.ipow %[[B1]], %[[T]] : (tensor<f64>, tensor<i64>) -> tensor<f64>
  // CHECK: %[[C1:.*]] = tessera.sub %{{.*}}, %[[B1T]] : tensor<f64>
  // CHECK: %[[RATE64:.*]] = tessera.div %[[LR]], %[[C1]] : tensor<f64>
  // CHECK: %[[RATE:.*]] = tessera.cast %[[RATE64]] : tensor<f64> -> tensor<f32>
  // CHECK: %[[B2T:.*]] = tessera.ipow
  // CHECK: %[[C2:.*]] = tessera.sub %{{.*}}, %[[B2T]]
  // CHECK: %[[ROOT:.*]] = tessera.sqrt %[[C2]] : tensor<f64>
  // CHECK: %[[SCALE:.*]] = tessera.cast %[[ROOT]] : tensor<f64> -> tensor<f32>
  // CHECK: %[[DECAYED:.*]] = tessera.mul %[[P]], %{{.*}} : (tensor<3xf32>, tensor<f32>)
  // CHECK: %[[D:.*]] = tessera.sub %[[G]], %[[M]]
  // CHECK: %[[DW:.*]] = tessera.mul %[[D]]
  // CHECK: %[[M1:.*]] = tessera.add %[[M]], %[[DW]]
  // CHECK: %[[GG:.*]] = tessera.mul %[[G]], %[[G]]
  // CHECK: %[[GGW:.*]] = tessera.mul %[[GG]]
  // CHECK: %[[VW:.*]] = tessera.mul %[[V]]
  // CHECK: %[[V1:.*]] = tessera.add %[[VW]], %[[GGW]]
  // CHECK: %[[RV:.*]] = tessera.sqrt %[[V1]]
  // CHECK: %[[RVS:.*]] = tessera.div %[[RV]], %[[SCALE]]
  // CHECK: %[[DEN:.*]] = tessera.add %[[RVS]]
  // CHECK: %[[Q:.*]] = tessera.div %[[M1]], %[[DEN]]
  // CHECK: %[[STEP:.*]] = tessera.mul %[[RATE]], %[[Q]]
  // CHECK: %[[P1:.*]] = tessera.sub %[[DECAYED]], %[[STEP]]
  // CHECK-NEXT: return %[[P1]], %[[M1]], %[[V1]]
  %t = tessera.step : tensor<i64>
  %0:3 = tessera.adamw %p, %g, %m, %v, %t {optimizer = #tessera.adamw<lr = 1.0e-3, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 1.0e-2>} : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i64>)
  return %0#0, %0#1, %0#2 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// The rate is worked out in f64: a warm-up, then a line from 1 to a half.
// CHECK-LABEL: func.func @scheduled(
// CHECK-SAME: %[[P:.*]]: tensor<3xf32>, %[[G:.*]]: tensor<3xf32>, %[[V:.*]]: tensor<3xf32>)
func.func @scheduled(%p: tensor<3xf32>, %g: tensor<3xf32>, %v: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  // CHECK-DAG: %[[STEP:.*]] = tessera.step : tensor<i64>
  // CHECK-DAG: %[[LR:.*]] = tessera.constant dense<1.250000e-01> : tensor<f64>
  // CHECK: %[[T:.*]] = tessera.cast %[[STEP]] : tensor<i64> -> tensor<f64>
  // CHECK: %[[PART:.*]] = tessera.div %[[T]], %{{.*}} : tensor<f64>
  // CHECK: %[[WARM:.*]] = tessera.min %[[PART]]
  // CHECK: %[[WARMED:.*]] = tessera.mul %[[LR]], %[[WARM]]
  // CHECK: %[[BEHIND:.*]] = tessera.sub %[[T]]
  // CHECK: %[[PLACE:.*]] = tessera.div %[[BEHIND]]
  // CHECK: %[[FROM:.*]] = tessera.max %[[PLACE]]
  // CHECK: %[[TO:.*]] = tessera.min %[[FROM]]
  // CHECK: %[[DOWN:.*]] = tessera.sub %{{.*}}, %[[TO]]
  // CHECK: %[[SCALED:.*]] = tessera.mul %{{.*}}, %[[DOWN]]
  // CHECK: %[[LEFT:.*]] = tessera.add %{{.*}}, %[[SCALED]]
  // CHECK: %[[RATE:.*]] = tessera.mul %[[WARMED]], %[[LEFT]]
  // CHECK: tessera.cast %[[RATE]] : tensor<f64> -> tensor<f32>
  %0:2 = tessera.sgd %p, %g, %v {optimizer = #tessera.sgd<lr = 0.125, momentum = 0.0, weight_decay = 0.0>,
      lr_schedule = {kind = "linear", warmup_steps = 4, total_steps = 20, final = 0.5}} : tensor<3xf32>
  return %0#0, %0#1 : tensor<3xf32>, tensor<3xf32>
}

// A convolution of one tap is a product; its stride or padding keeps it.
// CHECK-LABEL: func.func @pointwise
func.func @pointwise(%x: tensor<2x5x4x8xf32>, %f: tensor<1x1x8x6xf32>) -> (tensor<2x5x4x6xf32>, tensor<2x5x4x8xf32>, tensor<2x3x2x6xf32>, tensor<2x7x4x6xf32>) {
  // CHECK-NEXT: %[[Y:.*]] = tessera.matmul %arg0, %arg1 : (tensor<2x5x4x8xf32>, tensor<1x1x8x6xf32>) -> tensor<2x5x4x6xf32>
  // CHECK-NEXT: %[[D:.*]] = tessera.matmul %[[Y]], %arg1 {transpose_b = true} : (tensor<2x5x4x6xf32>, tensor<1x1x8x6xf32>) -> tensor<2x5x4x8xf32>
  // CHECK-NEXT: %[[S:.*]] = tessera.conv2d
  // CHECK-NEXT: %[[P:.*]] = tessera.conv2d
  // CHECK-NEXT: return %[[Y]], %[[D]], %[[S]], %[[P]]
  %y = tessera.conv2d %x, %f {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<2x5x4x8xf32>, tensor<1x1x8x6xf32>) -> tensor<2x5x4x6xf32>
  %d = tessera.conv2d_grad_input %f, %y {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<1x1x8x6xf32>, tensor<2x5x4x6xf32>) -> tensor<2x5x4x8xf32>
  %s = tessera.conv2d %x, %f {strides = [2, 2], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<2x5x4x8xf32>, tensor<1x1x8x6xf32>) -> tensor<2x3x2x6xf32>
  %p = tessera.conv2d %x, %f {strides = [1, 1], padding = [1, 1, 0, 0], dilation = [1, 1]} : (tensor<2x5x4x8xf32>, tensor<1x1x8x6xf32>) -> tensor<2x7x4x6xf32>
  return %y, %d, %s, %p : tensor<2x5x4x6xf32>, tensor<2x5x4x8xf32>, tensor<2x3x2x6xf32>, tensor<2x7x4x6xf32>
}

// Of bf16 it stays, unless matrix units may take it.
// CHECK-LABEL: func.func @pointwise_small
func.func @pointwise_small(%x: tensor<2x5x4x8xbf16>, %f: tensor<1x1x8x6xbf16>) -> tensor<2x5x4x6xbf16> {
  // CHECK-NEXT: %[[Y:.*]] = tessera.conv2d
  // CHECK-NEXT: return %[[Y]]
  %y = tessera.conv2d %x, %f {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<2x5x4x8xbf16>, tensor<1x1x8x6xbf16>) -> tensor<2x5x4x6xbf16>
  return %y : tensor<2x5x4x6xbf16>
}

// The few best of contiguous lines have a kernel, to which other lines are transposed; of many, all are sorted.
// CHECK-LABEL: func.func @best
func.func @best(%x: tensor<4x300xf32>) -> (tensor<4x128xf32>, tensor<4x129xf32>, tensor<2x300xf32>) {
  // CHECK-NEXT: %[[A:.*]], %{{.*}} = tessera.top_k %arg0
  // CHECK-NEXT: %[[S:.*]], %{{.*}} = tessera.sort %arg0 {axis = 1 : i64, descending = true}
  // CHECK-NEXT: %[[B:.*]] = tessera.slice %[[S]]
  // CHECK-NEXT: %[[T:.*]] = tessera.transpose %arg0 {permutation = [1, 0]}
  // CHECK-NEXT: %[[V:.*]], %{{.*}} = tessera.top_k %[[T]] {axis = 1 : i64, k = 2 : i64}
  // CHECK-NEXT: %[[C:.*]] = tessera.transpose %[[V]] {permutation = [1, 0]}
  // CHECK-NEXT: return %[[A]], %[[B]], %[[C]]
  %a:2 = tessera.top_k %x {axis = 1, k = 128} : tensor<4x300xf32> -> (tensor<4x128xf32>, tensor<4x128xi64>)
  %b:2 = tessera.top_k %x {axis = 1, k = 129} : tensor<4x300xf32> -> (tensor<4x129xf32>, tensor<4x129xi64>)
  %c:2 = tessera.top_k %x {axis = 0, k = 2} : tensor<4x300xf32> -> (tensor<2x300xf32>, tensor<2x300xi64>)
  return %a#0, %b#0, %c#0 : tensor<4x128xf32>, tensor<4x129xf32>, tensor<2x300xf32>
}

// The first rows in their order are a slice; other rows are gathered.
// CHECK-LABEL: func.func @first
func.func @first(%x: tensor<6x3xf32>, %i: tensor<2xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %places = tessera.iota {axis = 0 : i64} : tensor<2xi32>
  // CHECK: tessera.slice %{{.*}} {size = [2, 3], start = [0, 0]} : tensor<6x3xf32> -> tensor<2x3xf32>
  %0 = tessera.gather %x, %places {axis = 0 : i64} : (tensor<6x3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
  // CHECK: tessera.gather
  %1 = tessera.gather %x, %i {axis = 0 : i64} : (tensor<6x3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}

// Rows of one element have no sum that could overflow.
// CHECK-LABEL: func.func @one_element
// CHECK-NOT: tessera.repair
// CHECK: return
func.func @one_element(%x: tensor<7xf32>, %s: tensor<7xf32>, %b: tensor<7xf32>, %m: tensor<7xf32>, %v: tensor<7xf32>) -> (tensor<7xf32>, tensor<7xf32>) {
  %y, %mean, %variance = tessera.batch_norm_train %x, %s, %b, %m, %v {axis = 0 : i64} : tensor<7xf32> -> (tensor<7xf32>, tensor<7xf32>, tensor<7xf32>)
  return %y, %mean : tensor<7xf32>, tensor<7xf32>
}
