// SPDX-License-Identifier: Apache-2.0
// What a plan materializes is one kernel, each call its own, which nothing else joins; the bits stay.
// RUN: tessera-opt -tessera-graph -tsched-fuse %s | FileCheck %s
// RUN: tessera-aot build --target=cpu:x86-64-v3 %s -o %t.tsb
// RUN: tessera-run %t.tsb --entry planned --output y=%t.y.npy --output a=%t.a.npy --output b=%t.b.npy
// RUN: tessera-run %t.tsb --entry plain --output y=%t.py.npy --output a=%t.pa.npy --output b=%t.pb.npy
// RUN: cmp %t.y.npy %t.py.npy
// RUN: cmp %t.a.npy %t.pa.npy
// RUN: cmp %t.b.npy %t.pb.npy

func.func private @curve(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = tessera.softplus %x : tensor<64xf32>
  %1 = tessera.tanh %0 : tensor<64xf32>
  return %1 : tensor<64xf32>
}
// Too much for the planner to run side by side by itself.
func.func private @both(%x: tensor<512x256xf32>) -> (tensor<512x256xf32>, tensor<512x256xf32>) {
  %0 = tessera.exp %x : tensor<512x256xf32>
  %1 = tessera.sqrt %x : tensor<512x256xf32>
  return %0, %1 : tensor<512x256xf32>, tensor<512x256xf32>
}
func.func private @plan(%x: tensor<64xf32>, %w: tensor<512x256xf32>) {
  %X = tsched.value %x : tensor<64xf32>
  %W = tsched.value %w : tensor<512x256xf32>
  tsched.module {
    %g = tsched.fuse @curve(%X)
    %f = tsched.materialize %g : !tsched.func
    %h = tsched.fuse @both(%W)
    %k = tsched.materialize %h : !tsched.func
    tsched.return %f, %k
  }
  return
}

// CHECK-LABEL: func.func @planned
// CHECK: tsched.call @[[CURVE:k[0-9]+_abs_neg_exp_log1p_and_3]](
// CHECK: tsched.call @[[CURVE]](
// CHECK: tsched.call @[[BOTH:k[0-9]+_exp_sqrt]](
// CHECK-LABEL: func.func @plain
// CHECK-NOT: @[[CURVE]](
// CHECK-NOT: @[[BOTH]](
// CHECK: return
// CHECK: tsched.func @[[CURVE]]({{.*}} source = "user"
// CHECK-NOT: tsched.group
// CHECK: tsched.func @[[BOTH]]({{.*}} source = "user"
func.func @planned() -> (tensor<64xf32> {tessera.name = "y"}, tensor<512x256xf32> {tessera.name = "a"},
    tensor<512x256xf32> {tessera.name = "b"}) attributes {tessera.entry = "infer"} {
  %i = tessera.iota {axis = 0 : i64} : tensor<64xf32>
  %c = tessera.constant dense<0.03> : tensor<f32>
  %0 = tessera.mul %i, %c : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  %1 = call @curve(%0) : (tensor<64xf32>) -> tensor<64xf32>
  %2 = call @curve(%1) : (tensor<64xf32>) -> tensor<64xf32>
  %y = tessera.mul %2, %0 : tensor<64xf32>
  %j = tessera.iota {axis = 1 : i64} : tensor<512x256xf32>
  %w = tessera.mul %j, %c : (tensor<512x256xf32>, tensor<f32>) -> tensor<512x256xf32>
  %v = tessera.cumsum %w {axis = 0 : i64} : tensor<512x256xf32>
  %a, %b = call @both(%v) : (tensor<512x256xf32>) -> (tensor<512x256xf32>, tensor<512x256xf32>)
  return %y, %a, %b : tensor<64xf32>, tensor<512x256xf32>, tensor<512x256xf32>
}

// The same without calls.
func.func @plain() -> (tensor<64xf32> {tessera.name = "y"}, tensor<512x256xf32> {tessera.name = "a"},
    tensor<512x256xf32> {tessera.name = "b"}) attributes {tessera.entry = "infer"} {
  %i = tessera.iota {axis = 0 : i64} : tensor<64xf32>
  %c = tessera.constant dense<0.03> : tensor<f32>
  %0 = tessera.mul %i, %c : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  %1 = tessera.softplus %0 : tensor<64xf32>
  %2 = tessera.tanh %1 : tensor<64xf32>
  %3 = tessera.softplus %2 : tensor<64xf32>
  %4 = tessera.tanh %3 : tensor<64xf32>
  %y = tessera.mul %4, %0 : tensor<64xf32>
  %j = tessera.iota {axis = 1 : i64} : tensor<512x256xf32>
  %w = tessera.mul %j, %c : (tensor<512x256xf32>, tensor<f32>) -> tensor<512x256xf32>
  %v = tessera.cumsum %w {axis = 0 : i64} : tensor<512x256xf32>
  %a = tessera.exp %v : tensor<512x256xf32>
  %b = tessera.sqrt %v : tensor<512x256xf32>
  return %y, %a, %b : tensor<64xf32>, tensor<512x256xf32>, tensor<512x256xf32>
}
