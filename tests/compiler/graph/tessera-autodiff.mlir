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
  %0 = tessera.matmul %x, %w : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %1 = tessera.add %0, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  // CHECK: %[[D:.*]] = tessera.sub
  %d = tessera.sub %1, %t : tensor<4x2xf32>
  %q = tessera.mul %d, %d : tensor<4x2xf32>
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
  // CHECK-NEXT: %[[GW:.*]] = tessera.matmul %[[X]], %[[GD]] {transpose_a = true} : (tensor<4x3xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
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

func.func private @again(%c: tensor<f32>) -> tensor<f32> attributes {tessera.body = "no_rule"} {
  return %c : tensor<f32>
}
func.func @no_rule() -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<f32>
  // ERR: [[@LINE+3]]:11: error: [TSR-0301] tessera.loop: this op has no gradient rule
  // ERR-NEXT: {{^}}  %loss = tessera.loop
  // ERR-NEXT: {{^}}          ^
  %loss = tessera.loop "scan"(%w) {bodies = [@again], carried = 1 : i64, times = 3 : i64} : (tensor<f32>) -> tensor<f32>
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
  %0 = tessera.mul %x, %w : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
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
// CHECK: } {carried = 1 : i64, length = 100 : i64} : (tensor<f32>, tensor<100xf32>) -> (tensor<f32>, tensor<100xf32>)
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
    %0 = tessera.mul %c, %w : tensor<f32>
    %1 = tessera.add %0, %row : tensor<f32>
    tessera.yield %1 : tensor<f32>
  } {carried = 1 : i64} : (tensor<f32>, tensor<100xf32>) -> tensor<f32>
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
    %0 = tessera.compare lt %x, %n : tensor<f32> -> tensor<i1>
    tessera.yield %0 : tensor<i1>
  } do {
  ^bb0(%x: tensor<f32>):
    %0 = tessera.add %x, %x : tensor<f32>
    tessera.yield %0 : tensor<f32>
  } {limit = 1000000 : i64} : tensor<f32> -> tensor<f32>
  tessera.minimize %r {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>} : tensor<f32>
  return
}

// -----

func.func @rank(%x: tensor<1x1x1x1x1x1x1x1xf32>) {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<f32>
  // ERR: [[@LINE+1]]:8: error: [TSR-0108] tessera.scan: carried value 0 has 8 dims; a gradient keeps the value of each iteration, so the limit is 7
  %r = tessera.scan %x {
  ^bb0(%c: tensor<1x1x1x1x1x1x1x1xf32>):
    %0 = tessera.mul %c, %w : (tensor<1x1x1x1x1x1x1x1xf32>, tensor<f32>) -> tensor<1x1x1x1x1x1x1x1xf32>
    tessera.yield %0 : tensor<1x1x1x1x1x1x1x1xf32>
  } {carried = 1 : i64, length = 100 : i64} : tensor<1x1x1x1x1x1x1x1xf32> -> tensor<1x1x1x1x1x1x1x1xf32>
  %loss = tessera.sum %r {axes = [0, 1, 2, 3, 4, 5, 6, 7]} : tensor<1x1x1x1x1x1x1x1xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>} : tensor<f32>
  return
}

// -----

func.func @many() {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<f32>
  // ERR: [[@LINE+1]]:11: error: [TSR-0117] tessera.scan: carries 33 values and returns 33; with a gradient, at most 64 in total are possible
  %r:33 = tessera.scan %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w {
  ^bb0(%c0: tensor<f32>, %c1: tensor<f32>, %c2: tensor<f32>, %c3: tensor<f32>, %c4: tensor<f32>, %c5: tensor<f32>, %c6: tensor<f32>, %c7: tensor<f32>, %c8: tensor<f32>, %c9: tensor<f32>, %c10: tensor<f32>, %c11: tensor<f32>, %c12: tensor<f32>, %c13: tensor<f32>, %c14: tensor<f32>, %c15: tensor<f32>, %c16: tensor<f32>, %c17: tensor<f32>, %c18: tensor<f32>, %c19: tensor<f32>, %c20: tensor<f32>, %c21: tensor<f32>, %c22: tensor<f32>, %c23: tensor<f32>, %c24: tensor<f32>, %c25: tensor<f32>, %c26: tensor<f32>, %c27: tensor<f32>, %c28: tensor<f32>, %c29: tensor<f32>, %c30: tensor<f32>, %c31: tensor<f32>, %c32: tensor<f32>):
    %0 = tessera.mul %c0, %w : tensor<f32>
    tessera.yield %0, %c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7, %c8, %c9, %c10, %c11, %c12, %c13, %c14, %c15, %c16, %c17, %c18, %c19, %c20, %c21, %c22, %c23, %c24, %c25, %c26, %c27, %c28, %c29, %c30, %c31 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
  } {carried = 33 : i64, length = 100 : i64} : tensor<f32> -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
  tessera.minimize %r#0 {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>} : tensor<f32>
  return
}

// -----

func.func @reads() {
  %w0 = tessera.param "w0" init = #tessera.constant<0.0> : tensor<f32>
  %w1 = tessera.param "w1" init = #tessera.constant<0.0> : tensor<f32>
  %w2 = tessera.param "w2" init = #tessera.constant<0.0> : tensor<f32>
  %w3 = tessera.param "w3" init = #tessera.constant<0.0> : tensor<f32>
  %w4 = tessera.param "w4" init = #tessera.constant<0.0> : tensor<f32>
  %w5 = tessera.param "w5" init = #tessera.constant<0.0> : tensor<f32>
  %w6 = tessera.param "w6" init = #tessera.constant<0.0> : tensor<f32>
  %w7 = tessera.param "w7" init = #tessera.constant<0.0> : tensor<f32>
  %w8 = tessera.param "w8" init = #tessera.constant<0.0> : tensor<f32>
  %w9 = tessera.param "w9" init = #tessera.constant<0.0> : tensor<f32>
  %w10 = tessera.param "w10" init = #tessera.constant<0.0> : tensor<f32>
  %w11 = tessera.param "w11" init = #tessera.constant<0.0> : tensor<f32>
  %w12 = tessera.param "w12" init = #tessera.constant<0.0> : tensor<f32>
  %w13 = tessera.param "w13" init = #tessera.constant<0.0> : tensor<f32>
  %w14 = tessera.param "w14" init = #tessera.constant<0.0> : tensor<f32>
  %w15 = tessera.param "w15" init = #tessera.constant<0.0> : tensor<f32>
  %w16 = tessera.param "w16" init = #tessera.constant<0.0> : tensor<f32>
  %w17 = tessera.param "w17" init = #tessera.constant<0.0> : tensor<f32>
  %w18 = tessera.param "w18" init = #tessera.constant<0.0> : tensor<f32>
  %w19 = tessera.param "w19" init = #tessera.constant<0.0> : tensor<f32>
  %w20 = tessera.param "w20" init = #tessera.constant<0.0> : tensor<f32>
  %w21 = tessera.param "w21" init = #tessera.constant<0.0> : tensor<f32>
  %w22 = tessera.param "w22" init = #tessera.constant<0.0> : tensor<f32>
  %w23 = tessera.param "w23" init = #tessera.constant<0.0> : tensor<f32>
  %w24 = tessera.param "w24" init = #tessera.constant<0.0> : tensor<f32>
  %w25 = tessera.param "w25" init = #tessera.constant<0.0> : tensor<f32>
  %w26 = tessera.param "w26" init = #tessera.constant<0.0> : tensor<f32>
  %w27 = tessera.param "w27" init = #tessera.constant<0.0> : tensor<f32>
  %w28 = tessera.param "w28" init = #tessera.constant<0.0> : tensor<f32>
  %w29 = tessera.param "w29" init = #tessera.constant<0.0> : tensor<f32>
  %w30 = tessera.param "w30" init = #tessera.constant<0.0> : tensor<f32>
  %w31 = tessera.param "w31" init = #tessera.constant<0.0> : tensor<f32>
  %w32 = tessera.param "w32" init = #tessera.constant<0.0> : tensor<f32>
  %w33 = tessera.param "w33" init = #tessera.constant<0.0> : tensor<f32>
  %w34 = tessera.param "w34" init = #tessera.constant<0.0> : tensor<f32>
  %w35 = tessera.param "w35" init = #tessera.constant<0.0> : tensor<f32>
  %w36 = tessera.param "w36" init = #tessera.constant<0.0> : tensor<f32>
  %w37 = tessera.param "w37" init = #tessera.constant<0.0> : tensor<f32>
  %w38 = tessera.param "w38" init = #tessera.constant<0.0> : tensor<f32>
  %w39 = tessera.param "w39" init = #tessera.constant<0.0> : tensor<f32>
  %w40 = tessera.param "w40" init = #tessera.constant<0.0> : tensor<f32>
  %w41 = tessera.param "w41" init = #tessera.constant<0.0> : tensor<f32>
  %w42 = tessera.param "w42" init = #tessera.constant<0.0> : tensor<f32>
  %w43 = tessera.param "w43" init = #tessera.constant<0.0> : tensor<f32>
  %w44 = tessera.param "w44" init = #tessera.constant<0.0> : tensor<f32>
  %w45 = tessera.param "w45" init = #tessera.constant<0.0> : tensor<f32>
  %w46 = tessera.param "w46" init = #tessera.constant<0.0> : tensor<f32>
  %w47 = tessera.param "w47" init = #tessera.constant<0.0> : tensor<f32>
  %w48 = tessera.param "w48" init = #tessera.constant<0.0> : tensor<f32>
  %w49 = tessera.param "w49" init = #tessera.constant<0.0> : tensor<f32>
  %w50 = tessera.param "w50" init = #tessera.constant<0.0> : tensor<f32>
  %w51 = tessera.param "w51" init = #tessera.constant<0.0> : tensor<f32>
  %w52 = tessera.param "w52" init = #tessera.constant<0.0> : tensor<f32>
  %w53 = tessera.param "w53" init = #tessera.constant<0.0> : tensor<f32>
  %w54 = tessera.param "w54" init = #tessera.constant<0.0> : tensor<f32>
  %w55 = tessera.param "w55" init = #tessera.constant<0.0> : tensor<f32>
  %w56 = tessera.param "w56" init = #tessera.constant<0.0> : tensor<f32>
  %w57 = tessera.param "w57" init = #tessera.constant<0.0> : tensor<f32>
  %w58 = tessera.param "w58" init = #tessera.constant<0.0> : tensor<f32>
  %w59 = tessera.param "w59" init = #tessera.constant<0.0> : tensor<f32>
  %w60 = tessera.param "w60" init = #tessera.constant<0.0> : tensor<f32>
  %w61 = tessera.param "w61" init = #tessera.constant<0.0> : tensor<f32>
  %w62 = tessera.param "w62" init = #tessera.constant<0.0> : tensor<f32>
  %w63 = tessera.param "w63" init = #tessera.constant<0.0> : tensor<f32>
  // ERR: [[@LINE+1]]:8: error: [TSR-0117] tessera.scan: its gradient has 66 operands, for 1 carried values and 64 trained ones that the body reads; at most 64
  %r = tessera.scan %w0 {
  ^bb0(%c0: tensor<f32>):
    %c1 = tessera.mul %c0, %w0 : tensor<f32>
    %c2 = tessera.mul %c1, %w1 : tensor<f32>
    %c3 = tessera.mul %c2, %w2 : tensor<f32>
    %c4 = tessera.mul %c3, %w3 : tensor<f32>
    %c5 = tessera.mul %c4, %w4 : tensor<f32>
    %c6 = tessera.mul %c5, %w5 : tensor<f32>
    %c7 = tessera.mul %c6, %w6 : tensor<f32>
    %c8 = tessera.mul %c7, %w7 : tensor<f32>
    %c9 = tessera.mul %c8, %w8 : tensor<f32>
    %c10 = tessera.mul %c9, %w9 : tensor<f32>
    %c11 = tessera.mul %c10, %w10 : tensor<f32>
    %c12 = tessera.mul %c11, %w11 : tensor<f32>
    %c13 = tessera.mul %c12, %w12 : tensor<f32>
    %c14 = tessera.mul %c13, %w13 : tensor<f32>
    %c15 = tessera.mul %c14, %w14 : tensor<f32>
    %c16 = tessera.mul %c15, %w15 : tensor<f32>
    %c17 = tessera.mul %c16, %w16 : tensor<f32>
    %c18 = tessera.mul %c17, %w17 : tensor<f32>
    %c19 = tessera.mul %c18, %w18 : tensor<f32>
    %c20 = tessera.mul %c19, %w19 : tensor<f32>
    %c21 = tessera.mul %c20, %w20 : tensor<f32>
    %c22 = tessera.mul %c21, %w21 : tensor<f32>
    %c23 = tessera.mul %c22, %w22 : tensor<f32>
    %c24 = tessera.mul %c23, %w23 : tensor<f32>
    %c25 = tessera.mul %c24, %w24 : tensor<f32>
    %c26 = tessera.mul %c25, %w25 : tensor<f32>
    %c27 = tessera.mul %c26, %w26 : tensor<f32>
    %c28 = tessera.mul %c27, %w27 : tensor<f32>
    %c29 = tessera.mul %c28, %w28 : tensor<f32>
    %c30 = tessera.mul %c29, %w29 : tensor<f32>
    %c31 = tessera.mul %c30, %w30 : tensor<f32>
    %c32 = tessera.mul %c31, %w31 : tensor<f32>
    %c33 = tessera.mul %c32, %w32 : tensor<f32>
    %c34 = tessera.mul %c33, %w33 : tensor<f32>
    %c35 = tessera.mul %c34, %w34 : tensor<f32>
    %c36 = tessera.mul %c35, %w35 : tensor<f32>
    %c37 = tessera.mul %c36, %w36 : tensor<f32>
    %c38 = tessera.mul %c37, %w37 : tensor<f32>
    %c39 = tessera.mul %c38, %w38 : tensor<f32>
    %c40 = tessera.mul %c39, %w39 : tensor<f32>
    %c41 = tessera.mul %c40, %w40 : tensor<f32>
    %c42 = tessera.mul %c41, %w41 : tensor<f32>
    %c43 = tessera.mul %c42, %w42 : tensor<f32>
    %c44 = tessera.mul %c43, %w43 : tensor<f32>
    %c45 = tessera.mul %c44, %w44 : tensor<f32>
    %c46 = tessera.mul %c45, %w45 : tensor<f32>
    %c47 = tessera.mul %c46, %w46 : tensor<f32>
    %c48 = tessera.mul %c47, %w47 : tensor<f32>
    %c49 = tessera.mul %c48, %w48 : tensor<f32>
    %c50 = tessera.mul %c49, %w49 : tensor<f32>
    %c51 = tessera.mul %c50, %w50 : tensor<f32>
    %c52 = tessera.mul %c51, %w51 : tensor<f32>
    %c53 = tessera.mul %c52, %w52 : tensor<f32>
    %c54 = tessera.mul %c53, %w53 : tensor<f32>
    %c55 = tessera.mul %c54, %w54 : tensor<f32>
    %c56 = tessera.mul %c55, %w55 : tensor<f32>
    %c57 = tessera.mul %c56, %w56 : tensor<f32>
    %c58 = tessera.mul %c57, %w57 : tensor<f32>
    %c59 = tessera.mul %c58, %w58 : tensor<f32>
    %c60 = tessera.mul %c59, %w59 : tensor<f32>
    %c61 = tessera.mul %c60, %w60 : tensor<f32>
    %c62 = tessera.mul %c61, %w61 : tensor<f32>
    %c63 = tessera.mul %c62, %w62 : tensor<f32>
    %c64 = tessera.mul %c63, %w63 : tensor<f32>
    tessera.yield %c64 : tensor<f32>
  } {carried = 1 : i64, length = 100 : i64} : tensor<f32> -> tensor<f32>
  tessera.minimize %r {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>} : tensor<f32>
  return
}
