// SPDX-License-Identifier: Apache-2.0
// What stays a loop or branch, and what its body is.
// RUN: tessera-opt -tessera-flatten -tessera-outline -split-input-file %s | FileCheck %s

// Reads of tensors and constants go into the body, other values are handed to it.
// CHECK-LABEL: func.func @scan
// CHECK: %[[W:.*]] = tessera.neg %arg2
// CHECK: %[[R:.*]]:2 = tessera.loop "scan"(%arg0, %arg1, %[[W]]) {bodies = [@scan.0], carried = 1 : i64, reverse, sequences = 1 : i64, times = 50 : i64}
// CHECK: return %[[R]]#0, %[[R]]#1
// CHECK-LABEL: func.func private @scan.0
// CHECK-SAME: (%arg0: tensor<2xf32>, %arg1: tensor<2xf32>, %arg2: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) attributes {tessera.body = "scan"}
// CHECK-DAG: %[[P:.*]] = tessera.param "p"
// CHECK-DAG: %[[C:.*]] = tessera.constant dense<2.000000e+00>
// CHECK: %[[A:.*]] = tessera.mul %arg0, %arg1
// CHECK: %[[B:.*]] = tessera.add %[[A]], %arg2
// CHECK: %[[D:.*]] = tessera.mul %[[B]], %[[C]]
// CHECK: %[[E:.*]] = tessera.add %[[D]], %[[P]]
// CHECK: return %[[E]], %[[A]]
func.func @scan(%s: tensor<2xf32>, %x: tensor<50x2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<50x2xf32>) attributes {tessera.entry = "infer"} {
  %p = tessera.param "p" init = #tessera.constant<0.0> : tensor<2xf32>
  %c = tessera.constant dense<2.0> : tensor<2xf32>
  %w = tessera.neg %y : tensor<2xf32>
  %0:2 = tessera.scan %s, %x {
  ^bb0(%carry: tensor<2xf32>, %row: tensor<2xf32>):
    %1 = tessera.mul %carry, %row : tensor<2xf32>
    %2 = tessera.add %1, %w : tensor<2xf32>
    %3 = tessera.mul %2, %c : tensor<2xf32>
    %4 = tessera.add %3, %p : tensor<2xf32>
    tessera.yield %4, %1 : tensor<2xf32>, tensor<2xf32>
  } {carried = 1 : i64, reverse} : (tensor<2xf32>, tensor<50x2xf32>) -> (tensor<2xf32>, tensor<50x2xf32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<50x2xf32>
}

// -----

// A branch in a loop; what both read is handed through.
// CHECK-LABEL: func.func @while
// CHECK: tessera.loop "while"(%arg0, %arg1) {bodies = [@while.2, @while.3], carried = 1 : i64, times = 1000 : i64} : (tensor<i64>, tensor<i64>) -> tensor<i64>
// CHECK-LABEL: func.func private @while.0(%arg0: tensor<i64>, %arg1: tensor<i64>)
// CHECK-LABEL: func.func private @while.1(%arg0: tensor<i64>, %arg1: tensor<i64>)
// CHECK-LABEL: func.func private @while.2(%arg0: tensor<i64>, %arg1: tensor<i64>) -> tensor<i1>
// CHECK-LABEL: func.func private @while.3(%arg0: tensor<i64>, %arg1: tensor<i64>) -> tensor<i64>
// CHECK: tessera.loop "if"(%{{.*}}, %arg0, %arg1) {bodies = [@while.0, @while.1]}
func.func @while(%n: tensor<i64>, %m: tensor<i64>) -> tensor<i64> attributes {tessera.entry = "eval"} {
  %0 = tessera.while %n {
  ^bb0(%i: tensor<i64>):
    %l = tessera.compare lt %i, %m : tensor<i64> -> tensor<i1>
    tessera.yield %l : tensor<i1>
  } do {
  ^bb0(%i: tensor<i64>):
    %k = tessera.constant dense<10> : tensor<i64>
    %l = tessera.compare lt %i, %k : tensor<i64> -> tensor<i1>
    %2 = tessera.if %l {
      %3 = tessera.add %i, %m : tensor<i64>
      tessera.yield %3 : tensor<i64>
    } else {
      %3 = tessera.mul %i, %m : tensor<i64>
      tessera.yield %3 : tensor<i64>
    } : tensor<i1> -> tensor<i64>
    tessera.yield %2 : tensor<i64>
  } {limit = 1000 : i64} : tensor<i64> -> tensor<i64>
  return %0 : tensor<i64>
}

// -----

// Straight-line: what is cheap.
// CHECK-LABEL: func.func @straight
// CHECK-NOT: tessera.loop
func.func @straight(%s: tensor<f32>, %c: tensor<i1>) -> tensor<f32> attributes {tessera.entry = "infer"} {
  %0 = tessera.if %c {
    tessera.yield %s : tensor<f32>
  } else {
    %1 = tessera.neg %s : tensor<f32>
    tessera.yield %1 : tensor<f32>
  } : tensor<i1> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Written by hand, as it is printed.
// CHECK-LABEL: func.func @written
// CHECK: tessera.loop "if"(%arg0, %arg1) {bodies = [@same, @other]} : (tensor<i1>, tensor<f32>) -> tensor<f32>
func.func @written(%c: tensor<i1>, %x: tensor<f32>) -> tensor<f32> attributes {tessera.entry = "infer"} {
  %0 = tessera.loop "if"(%c, %x) {bodies = [@same, @other]} : (tensor<i1>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @same(%x: tensor<f32>) -> tensor<f32> attributes {tessera.body = "written"} {
  return %x : tensor<f32>
}
func.func private @other(%x: tensor<f32>) -> tensor<f32> attributes {tessera.body = "written"} {
  %0 = tessera.neg %x : tensor<f32>
  return %0 : tensor<f32>
}
