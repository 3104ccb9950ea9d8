// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-flatten -split-input-file %s | FileCheck %s

// What a branch reads passes a gate; both are computed, one is picked.
// CHECK-LABEL: func.func @if
func.func @if(%c: tensor<i1>, %x: tensor<4xf32>, %b: tensor<4xi1>) -> tensor<4xf32> {
  // CHECK: %[[X:.*]] = tessera.where %arg0, %arg1, %
  // CHECK: %[[LOG:.*]] = tessera.log %[[X]]
  // CHECK: %[[ELSE:.*]] = tessera.where %arg0, %{{.*}}, %arg1
  // CHECK: %[[NEG:.*]] = tessera.neg %[[ELSE]]
  // CHECK: %[[R:.*]] = tessera.where %arg0, %[[LOG]], %[[NEG]]
  // CHECK: return %[[R]]
  %0 = tessera.if %c {
    %1 = tessera.log %x : tensor<4xf32>
    tessera.yield %1 : tensor<4xf32>
  } else {
    %1 = tessera.neg %x : tensor<4xf32>
    tessera.yield %1 : tensor<4xf32>
  } : tensor<i1> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The last slice first; results stacked in order of the slices.
// CHECK-LABEL: func.func @scan
func.func @scan(%s: tensor<2xf32>, %x: tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2x2xf32>) {
  // CHECK: tessera.slice %arg1 {size = [1, 2], start = [1, 0]}
  // CHECK: tessera.neg
  // CHECK: %[[A:.*]] = tessera.reshape
  // CHECK: tessera.slice %arg1 {size = [1, 2], start = [0, 0]}
  // CHECK: tessera.neg
  // CHECK: %[[B:.*]] = tessera.reshape %{{.*}} : tensor<2xf32> -> tensor<1x2xf32>
  // CHECK: tessera.concat %[[B]], %
  %0:2 = tessera.scan %s, %x {
  ^bb0(%carry: tensor<2xf32>, %row: tensor<2xf32>):
    %1 = tessera.add %carry, %row : tensor<2xf32>
    %2 = tessera.neg %1 : tensor<2xf32>
    tessera.yield %1, %2 : tensor<2xf32>, tensor<2xf32>
  } {carried = 1 : i64, reverse} : (tensor<2xf32>, tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2x2xf32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2x2xf32>
}

// -----

// CHECK-LABEL: func.func @while
func.func @while(%n: tensor<i64>) -> tensor<i64> {
  // CHECK-COUNT-3: tessera.compare lt
  // CHECK-NOT: tessera.compare
  // CHECK: return
  %0 = tessera.while %n {
  ^bb0(%i: tensor<i64>):
    %k = tessera.constant dense<10> : tensor<i64>
    %l = tessera.compare lt %i, %k : tensor<i64> -> tensor<i1>
    tessera.yield %l : tensor<i1>
  } do {
  ^bb0(%i: tensor<i64>):
    %l = tessera.add %i, %i : tensor<i64>
    tessera.yield %l : tensor<i64>
  } {limit = 3 : i64} : tensor<i64> -> tensor<i64>
  return %0 : tensor<i64>
}

// -----

// Regions of derivatives are straight-line after autodiff, and so are loops in them. What a branch there reads from outside of the op is gated, too.
// CHECK-LABEL: func.func @derivatives(
// CHECK: tessera.jvp
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<f32>, %[[C:.*]]: tensor<f32>):
// CHECK-NOT: tessera.if
// CHECK-DAG: tessera.where %arg0, %arg1, %{{.*}}
// CHECK-DAG: tessera.where %arg0, %[[A]], %{{.*}}
// CHECK: tessera.custom_derivative
// CHECK-NOT: tessera.scan
// CHECK: } vjp {
// CHECK-NOT: tessera.if
// CHECK: tessera.where
// CHECK: return
func.func @derivatives(%c: tensor<i1>, %x: tensor<f32>, %t: tensor<f32>) -> tensor<f32> {
  %y, %d = tessera.jvp %x, %t, %t, %t {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %0 = tessera.if %c {
      %1 = tessera.mul %a, %x : tensor<f32>
      tessera.yield %1 : tensor<f32>
    } else {
      tessera.yield %b : tensor<f32>
    } : tensor<i1> -> tensor<f32>
    %2 = tessera.custom_derivative %0 {
    ^bb0(%e: tensor<f32>):
      %3 = tessera.scan %e {
      ^bb0(%f: tensor<f32>):
        %4 = tessera.tanh %f : tensor<f32>
        tessera.yield %4 : tensor<f32>
      } {carried = 1 : i64, length = 2 : i64} : tensor<f32> -> tensor<f32>
      tessera.yield %3 : tensor<f32>
    } vjp {
    ^bb0(%e: tensor<f32>, %f: tensor<f32>, %g: tensor<f32>):
      %3 = tessera.if %c {
        tessera.yield %g : tensor<f32>
      } else {
        tessera.yield %x : tensor<f32>
      } : tensor<i1> -> tensor<f32>
      tessera.yield %3 : tensor<f32>
    } : tensor<f32> -> tensor<f32>
    tessera.yield %2 : tensor<f32>
  } : tensor<f32> -> (tensor<f32>, tensor<f32>)
  return %d : tensor<f32>
}
