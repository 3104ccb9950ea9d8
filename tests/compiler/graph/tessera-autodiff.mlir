// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt -tessera-autodiff -split-input-file %s 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=ERR <%t.err

// Gradients stand in reverse order, after the loss; then one optimizer step per parameter, in the
// order in which the program reads them.
// CHECK-LABEL: func.func @linear(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x3xf32>
func.func @linear(%x: tensor<4x3xf32>, %t: tensor<4x2xf32>) -> tensor<f32> {
  // CHECK: %[[W:.*]] = tessera.param "w"
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<3x2xf32>
  // CHECK: %[[B:.*]] = tessera.param "b"
  %b = tessera.param "b" init = #tessera.constant<0.0> : tensor<2xf32>
  %0 = tessera.matmul %x, %w : tensor<4x3xf32>, tensor<3x2xf32> -> tensor<4x2xf32>
  %1 = tessera.add %0, %b : tensor<4x2xf32>, tensor<2xf32> -> tensor<4x2xf32>
  // CHECK: %[[D:.*]] = tessera.sub
  %d = tessera.sub %1, %t : tensor<4x2xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
  %q = tessera.mul %d, %d : tensor<4x2xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
  // CHECK: %[[LOSS:.*]] = tessera.sum
  %loss = tessera.sum %q {axes = [0, 1]} : tensor<4x2xf32> -> tensor<f32>
  // CHECK-NEXT: %[[ONE:.*]] = tessera.constant dense<1.000000e+00> : tensor<f32>
  // CHECK-NEXT: %[[G:.*]] = tessera.broadcast %[[ONE]] : tensor<f32> -> tensor<4x2xf32>
  // Both uses of %d in d * d: lhs first.
  // CHECK-NEXT: %[[G0:.*]] = tessera.mul %[[G]], %[[D]]
  // CHECK-NEXT: %[[G1:.*]] = tessera.mul %[[G]], %[[D]]
  // CHECK-NEXT: %[[GD:.*]] = tessera.add %[[G0]], %[[G1]]
  // The bias was stretched: its gradient is summed.
  // CHECK-NEXT: %[[GB:.*]] = tessera.sum %[[GD]] {axes = [0]} : tensor<4x2xf32> -> tensor<2xf32>
  // The input is no parameter: no gradient for it.
  // CHECK-NEXT: %[[GW:.*]] = tessera.matmul %[[X]], %[[GD]] {transpose_a = true} : tensor<4x3xf32>, tensor<4x2xf32> -> tensor<3x2xf32>
  // CHECK-NEXT: %[[STEP:.*]] = tessera.step : tensor<i64>
  // CHECK-NEXT: %[[M:.*]] = tessera.opt.state "w.adam_m" of "w" kind "adam_m" init = #tessera.constant<0.0> : tensor<3x2xf32>
  // CHECK-NEXT: %[[V:.*]] = tessera.opt.state "w.adam_v" of "w" kind "adam_v" init = #tessera.constant<0.0> : tensor<3x2xf32>
  // CHECK-NEXT: %[[P1:[^,]*]], %[[M1:[^,]*]], %[[V1:.*]] = tessera.adamw %[[W]], %[[GW]], %[[M]], %[[V]], %[[STEP]] {optimizer = #tessera.adamw<lr = 0.01,
  // CHECK-NEXT: tessera.assign %[[P1]] to "w"
  // CHECK-NEXT: tessera.assign %[[M1]] to "w.adam_m"
  // CHECK-NEXT: tessera.assign %[[V1]] to "w.adam_v"
  // CHECK: tessera.adamw %[[B]], %[[GB]], %{{.*}}, %{{.*}}, %[[STEP]]
  // CHECK: tessera.assign %{{.*}} to "b.adam_v"
  // CHECK-NEXT: return %[[LOSS]]
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}

// -----

func.func @no_rule(%l: tensor<2xi64>, %d: tensor<2xf32>) -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<2x3xf32>
  // ERR: [[@LINE+3]]:8: error: [TSR-0301] tessera.cross_entropy_grad: this op has no gradient rule
  // ERR-NEXT: {{^}}  %0 = tessera.cross_entropy_grad
  // ERR-NEXT: {{^}}       ^
  %0 = tessera.cross_entropy_grad %w, %l, %d : tensor<2x3xf32>, tensor<2xi64>, tensor<2xf32> -> tensor<2x3xf32>
  %loss = tessera.sum %0 {axes = [0, 1]} : tensor<2x3xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}

// -----

func.func private @f(tensor<2xf32>) -> tensor<f32>
func.func @call() -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<2xf32>
  // ERR: [[@LINE+1]]:11: error: [TSR-0306] func.call: no gradient rule for this op; inline calls first
  %loss = call @f(%w) : (tensor<2xf32>) -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}

// -----

func.func @dynamic(%x: tensor<?x3xf32>) -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<3xf32>
  %0 = tessera.mul %x, %w : tensor<?x3xf32>, tensor<3xf32> -> tensor<?x3xf32>
  // ERR: [[@LINE+1]]:11: error: [TSR-0110] tessera.sum: operand 0 is ?x3xf32; gradients need known dims
  %loss = tessera.sum %0 {axes = [0, 1]} : tensor<?x3xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}

// -----

func.func @constant(%x: tensor<f32>) -> tensor<f32> {
  // ERR: [[@LINE+1]]:3: error: [TSR-0303] tessera.minimize: the loss depends on no parameter
  tessera.minimize %x {optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %x : tensor<f32>
}

// -----

func.func @nameless() -> tensor<f32> {
  // ERR: [[@LINE+1]]:8: error: [TSR-0201] tessera.param: a trained parameter needs a name
  %w = tessera.param init = #tessera.constant<0.0> : tensor<f32>
  tessera.minimize %w {optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %w : tensor<f32>
}

// -----

func.func @twice() -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<f32>
  // ERR: [[@LINE+3]]:3: error: [TSR-0213] tessera.minimize: parameter 'w' already has a next value
  // ERR: [[@LINE+1]]:3: note: assigned here
  tessera.minimize %w {optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  tessera.minimize %w {optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %w : tensor<f32>
}

// -----

// A scan that stays one gives what it carries; its gradient runs the other way and sums what the body read; what it needs not, it has not.
// CHECK-LABEL: func.func @scan
// CHECK-DAG: %[[P:.*]] = tessera.param "p"
// CHECK-DAG: %[[W:.*]] = tessera.param "w"
// CHECK: %[[R:.*]]:2 = tessera.scan %[[P]], %arg0 {
// CHECK: ^bb0(%[[C:.*]]: tensor<f32>, %{{.*}}: tensor<f32>):
// CHECK: tessera.yield %{{.*}}, %[[C]] : tensor<f32>, tensor<f32>
// CHECK: } {carried = 1 : i64, length = 100 : i64} : tensor<f32>, tensor<100xf32> -> tensor<f32>, tensor<100xf32>
// CHECK: %[[G:.*]]:2 = tessera.scan %{{.*}}, %{{.*}}, %[[R]]#1 {
// CHECK: ^bb0(%[[DC:.*]]: tensor<f32>, %[[DW:.*]]: tensor<f32>, %[[OLD:.*]]: tensor<f32>):
// CHECK-NEXT: %[[A:.*]] = tessera.mul %{{.*}}, %[[W]]
// CHECK: %[[B:.*]] = tessera.mul %{{.*}}, %[[OLD]]
// CHECK: %[[SUM:.*]] = tessera.add %[[DW]], %[[B]]
// CHECK: tessera.yield %[[A]], %[[SUM]] : tensor<f32>, tensor<f32>
// CHECK: } {carried = 2 : i64, length = 100 : i64, reverse}
// CHECK: tessera.sgd %[[P]], %[[G]]#0
// CHECK: tessera.sgd %[[W]], %[[G]]#1
func.func @scan(%x: tensor<100xf32>) {
  %p = tessera.param "p" init = #tessera.constant<0.0> : tensor<f32>
  %r = tessera.scan %p, %x {
  ^bb0(%c: tensor<f32>, %row: tensor<f32>):
    %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<f32>
    %0 = tessera.mul %c, %w : tensor<f32>, tensor<f32> -> tensor<f32>
    %1 = tessera.add %0, %row : tensor<f32>, tensor<f32> -> tensor<f32>
    tessera.yield %1 : tensor<f32>
  } {carried = 1 : i64} : tensor<f32>, tensor<100xf32> -> tensor<f32>
  tessera.minimize %r {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>} : tensor<f32>
  return
}

// -----

// CHECK-LABEL: func.func @if
// CHECK: %[[P:.*]] = tessera.param "p"
// CHECK: tessera.if %arg0 {
// CHECK: %[[G:.*]] = tessera.if %arg0 {
// CHECK: tessera.log %[[P]]
// CHECK: tessera.div
// CHECK: } else {
// CHECK: %[[ZERO:.*]] = tessera.constant dense<0.000000e+00>
// CHECK: tessera.yield %[[ZERO]]
// CHECK: } : tensor<i1> -> tensor<f32>
// CHECK: tessera.sgd %[[P]], %[[G]]
func.func @if(%c: tensor<i1>, %x: tensor<f32>) {
  %p = tessera.param "p" init = #tessera.constant<1.0> : tensor<f32>
  %r = tessera.if %c {
    %0 = tessera.log %p : tensor<f32>
    tessera.yield %0 : tensor<f32>
  } else {
    %0 = tessera.neg %x : tensor<f32>
    tessera.yield %0 : tensor<f32>
  } : tensor<i1> -> tensor<f32>
  tessera.minimize %r {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>} : tensor<f32>
  return
}

// -----

// A while becomes a scan: it does nothing where its condition has failed, and keeps what it carries.
// CHECK-LABEL: func.func @while
// CHECK: %[[P:.*]] = tessera.param "p"
// CHECK: %[[TRUE:.*]] = tessera.constant dense<true>
// CHECK: %[[S:.*]]:4 = tessera.scan %[[TRUE]], %[[P]] {
// CHECK: ^bb0(%[[SO_FAR:.*]]: tensor<i1>, %[[X:.*]]: tensor<f32>):
// CHECK: %[[HOLDS:.*]] = tessera.if %[[SO_FAR]] {
// CHECK: tessera.compare lt %[[X]], %arg0
// CHECK: tessera.yield %[[SO_FAR]]
// CHECK: %[[NEXT:.*]] = tessera.if %[[HOLDS]] {
// CHECK: tessera.yield %[[X]]
// CHECK: tessera.yield %[[HOLDS]], %[[NEXT]], %[[SO_FAR]], %[[X]]
// CHECK: {carried = 2 : i64, length = 1000000 : i64}
// CHECK: %[[G:.*]] = tessera.scan %{{.*}}, %[[S]]#2, %[[S]]#3 {
// CHECK: {carried = 1 : i64, length = 1000000 : i64, reverse}
// CHECK: tessera.sgd %[[P]], %[[G]]
func.func @while(%n: tensor<f32>) {
  %p = tessera.param "p" init = #tessera.constant<1.0> : tensor<f32>
  %r = tessera.while %p {
  ^bb0(%x: tensor<f32>):
    %0 = tessera.compare lt %x, %n : tensor<f32>, tensor<f32> -> tensor<i1>
    tessera.yield %0 : tensor<i1>
  } do {
  ^bb0(%x: tensor<f32>):
    %0 = tessera.add %x, %x : tensor<f32>, tensor<f32> -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } {limit = 1000000 : i64} : tensor<f32> -> tensor<f32>
  tessera.minimize %r {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>} : tensor<f32>
  return
}
