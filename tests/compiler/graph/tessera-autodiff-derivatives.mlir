// SPDX-License-Identifier: Apache-2.0
// jvp, vjp and custom_derivative: what they become.
// RUN: tessera-opt -tessera-autodiff -canonicalize -cse -split-input-file %s | FileCheck %s

// The tangent stands in the place of the result's gradient; what is stretched is stretched, not summed.
// CHECK-LABEL: func.func @jvp(
// CHECK-SAME: %[[X:[^:]*]]: tensor<3x4xf32>, %[[B:[^:]*]]: tensor<4xf32>, %[[DX:[^:]*]]: tensor<3x4xf32>, %[[DB:[^:]*]]: tensor<4xf32>
// CHECK-NEXT: %[[E:.*]] = tessera.exp %[[X]]
// CHECK-NEXT: %[[DE:.*]] = tessera.mul %[[DX]], %[[E]]
// CHECK-NEXT: %[[Y:.*]] = tessera.add %[[E]], %[[B]]
// CHECK-NEXT: %[[WIDE:.*]] = tessera.broadcast %[[DB]] : tensor<4xf32> -> tensor<3x4xf32>
// CHECK-NEXT: %[[DY:.*]] = tessera.add %[[DE]], %[[WIDE]]
// CHECK-NEXT: return %[[Y]], %[[DY]]
func.func @jvp(%x: tensor<3x4xf32>, %b: tensor<4xf32>, %dx: tensor<3x4xf32>, %db: tensor<4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %y, %dy = tessera.jvp %x, %b, %dx, %db {
  ^bb0(%a: tensor<3x4xf32>, %c: tensor<4xf32>):
    %0 = tessera.exp %a : tensor<3x4xf32>
    %1 = tessera.add %0, %c : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
    tessera.yield %1 : tensor<3x4xf32>
  } : (tensor<3x4xf32>, tensor<4xf32>, tensor<3x4xf32>, tensor<4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>)
  return %y, %dy : tensor<3x4xf32>, tensor<3x4xf32>
}

// -----

// The gradient rule of a product, transposed: two products and no more.
// CHECK-LABEL: func.func @product(
// CHECK-SAME: %[[A:[^:]*]]: tensor<2x3xf32>, %[[B:[^:]*]]: tensor<3x4xf32>, %[[DA:[^:]*]]: tensor<2x3xf32>, %[[DB:[^:]*]]: tensor<3x4xf32>
// CHECK-NEXT: %[[ONE:.*]] = tessera.matmul %{{.*}}, %{{.*}} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT: %[[TWO:.*]] = tessera.matmul %{{.*}}, %{{.*}} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT: %[[D:.*]] = tessera.add %[[ONE]], %[[TWO]]
// CHECK-NEXT: return %[[D]]
func.func @product(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %da: tensor<2x3xf32>, %db: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %y, %dy = tessera.jvp %a, %b, %da, %db {
  ^bb0(%p: tensor<2x3xf32>, %q: tensor<3x4xf32>):
    %0 = tessera.matmul %p, %q : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    tessera.yield %0 : tensor<2x4xf32>
  } : (tensor<2x3xf32>, tensor<3x4xf32>, tensor<2x3xf32>, tensor<3x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  return %dy : tensor<2x4xf32>
}

// -----

// Integers have neither tangents nor gradients; what does not depend on x has zeros.
// CHECK-LABEL: func.func @zeros(
// CHECK: %[[ZERO:.*]] = tessera.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK: %[[F:.*]] = tessera.floor %arg0
// CHECK-NEXT: return %[[F]], %arg1, %[[ZERO]], %[[ZERO]]
func.func @zeros(%x: tensor<4xf32>, %n: tensor<i64>, %t: tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>, tensor<4xf32>, tensor<4xf32>) {
  %y:3 = tessera.jvp %x, %n, %t {
  ^bb0(%a: tensor<4xf32>, %k: tensor<i64>):
    %0 = tessera.floor %a : tensor<4xf32>
    tessera.yield %0, %k : tensor<4xf32>, tensor<i64>
  } : (tensor<4xf32>, tensor<i64>, tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>, tensor<4xf32>)
  %z:3 = tessera.vjp %x, %n, %t {
  ^bb0(%a: tensor<4xf32>, %k: tensor<i64>):
    %0 = tessera.floor %a : tensor<4xf32>
    tessera.yield %0, %k : tensor<4xf32>, tensor<i64>
  } : (tensor<4xf32>, tensor<i64>, tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>, tensor<4xf32>)
  return %y#0, %z#1, %y#2, %z#2 : tensor<4xf32>, tensor<i64>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A parameter in a region is a constant to vjp, and a parameter to minimize, which goes through the gradients of the vjp.
// CHECK-LABEL: func.func @train(
// CHECK-DAG: %[[W:.*]] = tessera.param "w"
// The gradient of x w w with respect to x is w w; twice that sum is what w gets.
// CHECK: %[[G:.*]] = tessera.mul %[[W]], %[[W]]
// CHECK: %[[D:.*]] = tessera.add %[[W]], %[[W]]
// CHECK: tessera.sgd %[[W]], %[[D]]
// CHECK: return %[[G]]
func.func @train(%x: tensor<f32>) -> tensor<f32> attributes {tessera.entry = "train"} {
  %one = tessera.constant dense<1.0> : tensor<f32>
  %y, %g = tessera.vjp %x, %one {
  ^bb0(%a: tensor<f32>):
    %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<f32>
    %0 = tessera.mul %a, %w : tensor<f32>
    %1 = tessera.mul %0, %w : tensor<f32>
    tessera.yield %1 : tensor<f32>
  } : tensor<f32> -> (tensor<f32>, tensor<f32>)
  tessera.minimize %g {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %g : tensor<f32>
}

// -----

// Straight through: one rule serves both modes.
// CHECK-LABEL: func.func @straight(
// CHECK-NEXT: %[[F:.*]] = tessera.floor %arg0
// CHECK-NEXT: return %[[F]], %arg1, %arg2
func.func @straight(%x: tensor<4xf32>, %t: tensor<4xf32>, %g: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %y, %d = tessera.jvp %x, %t {
  ^bb0(%a: tensor<4xf32>):
    %0 = tessera.custom_derivative %a {
    ^bb0(%b: tensor<4xf32>):
      %1 = tessera.floor %b : tensor<4xf32>
      tessera.yield %1 : tensor<4xf32>
    } vjp {
    ^bb0(%b: tensor<4xf32>, %c: tensor<4xf32>, %h: tensor<4xf32>):
      tessera.yield %h : tensor<4xf32>
    } : tensor<4xf32> -> tensor<4xf32>
    tessera.yield %0 : tensor<4xf32>
  } : tensor<4xf32> -> (tensor<4xf32>, tensor<4xf32>)
  %z, %e = tessera.vjp %x, %g {
  ^bb0(%a: tensor<4xf32>):
    %0 = tessera.custom_derivative %a {
    ^bb0(%b: tensor<4xf32>):
      %1 = tessera.floor %b : tensor<4xf32>
      tessera.yield %1 : tensor<4xf32>
    } jvp {
    ^bb0(%b: tensor<4xf32>, %c: tensor<4xf32>, %h: tensor<4xf32>):
      tessera.yield %h : tensor<4xf32>
    } : tensor<4xf32> -> tensor<4xf32>
    tessera.yield %0 : tensor<4xf32>
  } : tensor<4xf32> -> (tensor<4xf32>, tensor<4xf32>)
  return %y, %d, %e : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Each mode has its rule where both are given; what rule and function both compute is computed once.
// CHECK-LABEL: func.func @both(
// CHECK-NEXT: %[[E:.*]] = tessera.exp %arg0
// CHECK-NEXT: %[[T:.*]] = tessera.mul %arg1, %[[E]]
// CHECK-NEXT: %[[N:.*]] = tessera.neg %arg1
// CHECK-NEXT: return %[[E]], %[[T]], %[[N]]
func.func @both(%x: tensor<f32>, %t: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %y, %d = tessera.jvp %x, %t {
  ^bb0(%a: tensor<f32>):
    %0 = tessera.custom_derivative %a {
    ^bb0(%b: tensor<f32>):
      %1 = tessera.exp %b : tensor<f32>
      tessera.yield %1 : tensor<f32>
    } vjp {
    ^bb0(%b: tensor<f32>, %c: tensor<f32>, %h: tensor<f32>):
      %1 = tessera.neg %h : tensor<f32>
      tessera.yield %1 : tensor<f32>
    } jvp {
    ^bb0(%b: tensor<f32>, %c: tensor<f32>, %h: tensor<f32>):
      %1 = tessera.exp %b : tensor<f32>
      %2 = tessera.mul %h, %1 : tensor<f32>
      tessera.yield %2 : tensor<f32>
    } : tensor<f32> -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } : tensor<f32> -> (tensor<f32>, tensor<f32>)
  %z, %e = tessera.vjp %x, %t {
  ^bb0(%a: tensor<f32>):
    %0 = tessera.custom_derivative %a {
    ^bb0(%b: tensor<f32>):
      %1 = tessera.exp %b : tensor<f32>
      tessera.yield %1 : tensor<f32>
    } vjp {
    ^bb0(%b: tensor<f32>, %c: tensor<f32>, %h: tensor<f32>):
      %1 = tessera.neg %h : tensor<f32>
      tessera.yield %1 : tensor<f32>
    } jvp {
    ^bb0(%b: tensor<f32>, %c: tensor<f32>, %h: tensor<f32>):
      tessera.yield %c : tensor<f32>
    } : tensor<f32> -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } : tensor<f32> -> (tensor<f32>, tensor<f32>)
  return %z, %d, %e : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// A scan carries tangents along, takes those of its sequences and stacks those of its results.
// CHECK-LABEL: func.func @scan(
// CHECK: %[[R:.*]]:4 = tessera.scan %arg0, %arg2, %arg1, %arg3 {
// CHECK-NEXT: ^bb0(%[[C:.*]]: tensor<f32>, %[[DC:.*]]: tensor<f32>, %[[S:.*]]: tensor<f32>, %[[DS:.*]]: tensor<f32>):
// CHECK-NEXT: %[[N:.*]] = tessera.mul %[[C]], %[[S]]
// CHECK-NEXT: %[[LEFT:.*]] = tessera.mul %[[DC]], %[[S]]
// CHECK-NEXT: %[[RIGHT:.*]] = tessera.mul %[[DS]], %[[C]]
// CHECK-NEXT: %[[DN:.*]] = tessera.add %[[LEFT]], %[[RIGHT]]
// CHECK-NEXT: tessera.yield %[[N]], %[[DN]], %[[C]], %[[DC]]
// CHECK-NEXT: } {carried = 2 : i64} : (tensor<f32>, tensor<f32>, tensor<50xf32>, tensor<50xf32>) -> (tensor<f32>, tensor<f32>, tensor<50xf32>, tensor<50xf32>)
// CHECK: return %[[R]]#0, %[[R]]#1, %[[R]]#3
func.func @scan(%c: tensor<f32>, %s: tensor<50xf32>, %dc: tensor<f32>, %ds: tensor<50xf32>) -> (tensor<f32>, tensor<f32>, tensor<50xf32>) attributes {tessera.entry = "infer"} {
  %y:4 = tessera.jvp %c, %s, %dc, %ds {
  ^bb0(%a: tensor<f32>, %b: tensor<50xf32>):
    %0:2 = tessera.scan %a, %b {
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %1 = tessera.mul %p, %q : tensor<f32>
      tessera.yield %1, %p : tensor<f32>, tensor<f32>
    } {carried = 1 : i64} : (tensor<f32>, tensor<50xf32>) -> (tensor<f32>, tensor<50xf32>)
    tessera.yield %0#0, %0#1 : tensor<f32>, tensor<50xf32>
  } : (tensor<f32>, tensor<50xf32>, tensor<f32>, tensor<50xf32>) -> (tensor<f32>, tensor<50xf32>, tensor<f32>, tensor<50xf32>)
  return %y#0, %y#2, %y#3 : tensor<f32>, tensor<f32>, tensor<50xf32>
}

// -----

// So does a while; both branches of an if yield tangents, zeros where one has none.
// CHECK-LABEL: func.func @while(
// CHECK: %{{.*}}:3 = tessera.while %{{.*}}, %arg0, %arg1 {
// CHECK: ^bb0(%[[I:.*]]: tensor<i64>, %{{.*}}: tensor<f32>, %{{.*}}: tensor<f32>):
// CHECK: tessera.compare
// CHECK: } do {
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<i64>, %[[C:.*]]: tensor<f32>, %[[DC:.*]]: tensor<f32>):
// CHECK: %[[IF:.*]]:2 = tessera.if
// CHECK: %[[E:.*]] = tessera.exp %[[C]]
// CHECK: %[[DE:.*]] = tessera.mul %[[DC]], %[[E]]
// CHECK: tessera.yield %[[E]], %[[DE]]
// CHECK: else
// CHECK: tessera.floor
// CHECK: tessera.yield
// CHECK: tessera.yield %{{.*}}, %[[IF]]#0, %[[IF]]#1
func.func @while(%x: tensor<f32>, %t: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {tessera.entry = "infer"} {
  %zero = tessera.constant dense<0> : tensor<i64>
  %top = tessera.constant dense<40> : tensor<i64>
  %one = tessera.constant dense<1> : tensor<i64>
  %two = tessera.constant dense<2.0> : tensor<f32>
  %y, %d = tessera.jvp %x, %t {
  ^bb0(%a: tensor<f32>):
    %0:2 = tessera.while %zero, %a {
    ^bb0(%i: tensor<i64>, %c: tensor<f32>):
      %1 = tessera.compare lt %i, %top : tensor<i64> -> tensor<i1>
      tessera.yield %1 : tensor<i1>
    } do {
    ^bb0(%i: tensor<i64>, %c: tensor<f32>):
      %1 = tessera.add %i, %one : tensor<i64>
      %2 = tessera.compare lt %c, %two : tensor<f32> -> tensor<i1>
      %3 = tessera.if %2 {
        %4 = tessera.exp %c : tensor<f32>
        tessera.yield %4 : tensor<f32>
      } else {
        %4 = tessera.floor %c : tensor<f32>
        tessera.yield %4 : tensor<f32>
      } : tensor<i1> -> tensor<f32>
      tessera.yield %1, %3 : tensor<i64>, tensor<f32>
    } {limit = 100 : i64} : (tensor<i64>, tensor<f32>) -> (tensor<i64>, tensor<f32>)
    tessera.yield %0#1 : tensor<f32>
  } : tensor<f32> -> (tensor<f32>, tensor<f32>)
  return %y, %d : tensor<f32>, tensor<f32>
}

// -----

// A value that a rule reads from outside is a constant; nothing of the ops with regions is left.
// CHECK-LABEL: func.func @rule_reads(
// CHECK-NOT: custom_derivative
// CHECK: %[[D:.*]] = tessera.mul %{{.*}}, %{{.*}}
// CHECK: tessera.sgd %{{.*}}, %[[D]]
func.func @rule_reads() -> tensor<f32> attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<f32>
  %e = tessera.exp %w : tensor<f32>
  %loss = tessera.custom_derivative %w {
  ^bb0(%a: tensor<f32>):
    %0 = tessera.tanh %a : tensor<f32>
    tessera.yield %0 : tensor<f32>
  } vjp {
  ^bb0(%a: tensor<f32>, %y: tensor<f32>, %g: tensor<f32>):
    %0 = tessera.mul %g, %e : tensor<f32>
    %1 = tessera.mul %0, %y : tensor<f32>
    tessera.yield %1 : tensor<f32>
  } : tensor<f32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}
