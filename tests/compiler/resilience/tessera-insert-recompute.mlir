// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-inline-regions -tessera-autodiff -tessera-insert-recompute -split-input-file %s | FileCheck %s
// Without segments or hints nothing changes.
// RUN: tessera-opt -inline -tessera-autodiff %examples/digits/digits.mlir >%t.1
// RUN: tessera-opt -tessera-inline-regions -tessera-insert-recompute %t.1 | diff %t.1 -

// Full: as few bytes as can be are saved, and among such choices least is run again; that stands behind
// a barrier that waits for the gradient.
// CHECK-LABEL: func.func @full
// CHECK-SAME: tessera_sr.recompute = [32, 16, 1, {{[0-9]+}}]
func.func @full() {
  // CHECK: %[[W:.*]] = tessera.param "w"
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<2x2xf32>
  %x = tessera.param "x" init = #tessera.constant<1.0> : tensor<2x2xf32>
  // CHECK: %[[A:.*]] = tessera.matmul
  %a = tessera.matmul %x, %w : tensor<2x2xf32>
  // CHECK-NEXT: %[[E:.*]] = tessera.exp %[[A]]
  // CHECK-NEXT: %[[T:.*]] = tessera.tanh %[[E]]
  // CHECK-NEXT: tessera.sum %[[T]]
  %b = tessera.schedule.checkpoint {policy = "full"} {
    %0 = tessera.exp %a : tensor<2x2xf32>
    %1 = tessera.tanh %0 : tensor<2x2xf32>
    tessera.yield %1 : tensor<2x2xf32>
  } : tensor<2x2xf32>
  %loss = tessera.sum %b {axes = [0, 1]} : tensor<2x2xf32> -> tensor<f32>
  // CHECK: %[[DB:.*]] = tessera.broadcast
  // CHECK-NEXT: %[[B:.*]] = tessera_sr.barrier %[[E]], %[[DB]] {segment = 0 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK-NEXT: %[[AGAIN:.*]] = tessera.tanh %[[B]]
  // CHECK-NEXT: tessera.mul %[[AGAIN]], %[[AGAIN]]
  // CHECK-NOT: %[[T]]
  // CHECK-NOT: tessera_sr.segment
  // CHECK-NOT: tessera_sr.backward
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}

// -----

// Selective: the product of long rows is saved, what is elementwise is run again.
// CHECK-LABEL: func.func @selective
func.func @selective() {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<256x256xf32>
  %x = tessera.param "x" init = #tessera.constant<1.0> : tensor<8x256xf32>
  // CHECK: tessera.matmul
  // CHECK: %[[S:.*]] = tessera.sigmoid
  %b = tessera.schedule.checkpoint {
    %0 = tessera.exp %x : tensor<8x256xf32>
    %1 = tessera.matmul %0, %w : (tensor<8x256xf32>, tensor<256x256xf32>) -> tensor<8x256xf32>
    %2 = tessera.sigmoid %1 : tensor<8x256xf32>
    %3 = tessera.tanh %2 : tensor<8x256xf32>
    tessera.yield %3 : tensor<8x256xf32>
  } : tensor<8x256xf32>
  %loss = tessera.sum %b {axes = [0, 1]} : tensor<8x256xf32> -> tensor<f32>
  // CHECK: %[[B:.*]] = tessera_sr.barrier %[[S]], {{.*}} -> tensor<8x256xf32>
  // CHECK: tessera.tanh %[[B]]
  // CHECK-NOT: tessera.sigmoid
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}

// -----

// None, and an empty body.
// CHECK-LABEL: func.func @none
func.func @none() {
  // CHECK-NOT: tessera_sr
  %x = tessera.param "x" init = #tessera.constant<1.0> : tensor<2x2xf32>
  tessera_sr.checkpoint {}
  %b = tessera_sr.checkpoint {
    %0 = tessera.exp %x : tensor<2x2xf32>
    tessera.yield %0 : tensor<2x2xf32>
  } {policy = "none"} : tensor<2x2xf32>
  %loss = tessera.sum %b {axes = [0, 1]} : tensor<2x2xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}

// -----

// A hint finds segments by itself.
// CHECK-LABEL: func.func @hint
func.func @hint() {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<2x2xf32>
  tessera.schedule.recompute_hint {policy = "full"}
  %0 = tessera.exp %w : tensor<2x2xf32>
  %1 = tessera.tanh %0 : tensor<2x2xf32>
  %2 = tessera.exp %1 : tensor<2x2xf32>
  %3 = tessera.tanh %2 : tensor<2x2xf32>
  %4 = tessera.exp %3 : tensor<2x2xf32>
  %5 = tessera.tanh %4 : tensor<2x2xf32>
  %loss = tessera.sum %5 {axes = [0, 1]} : tensor<2x2xf32> -> tensor<f32>
  // CHECK: tessera_sr.barrier
  // CHECK: tessera_sr.barrier
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}
