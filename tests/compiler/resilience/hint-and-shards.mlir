// SPDX-License-Identifier: Apache-2.0
// A hint is about the forward pass: of what shards a step, or ties a region, nothing runs again and nothing is held for it.
// RUN: tessera-opt -tessera-inline-regions -tessera-autodiff -tessera-optimizer-shard -tessera-insert-recompute -split-input-file %s | FileCheck %s

module attributes {tessera.mesh = {data = 2}} {
  // Of three values the last one's operand is held.
  // CHECK-LABEL: func.func @zero2
  // CHECK-SAME: tessera_sr.recompute = [48, 16, 2,
  func.func @zero2() {
    // CHECK: %[[W:.*]] = tessera.param "w"
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<4xf32>
    tessera.schedule.recompute_hint {policy = "full"}
    %0 = tessera.exp %w : tensor<4xf32>
    %1 = tessera.tanh %0 : tensor<4xf32>
    %2 = tessera.tanh %1 : tensor<4xf32>
    %loss = tessera.sum %2 {axes = [0]} : tensor<4xf32> -> tensor<f32>
    // CHECK: tessera_sr.barrier
    // CHECK: tessera_sr.shard_slice %[[W]]
    // CHECK-NOT: tessera_sr.barrier
    // CHECK: tessera_sr.all_gather
    // CHECK-NOT: tessera_sr.barrier
    // CHECK: return
    tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0, beta1 = 0.9, beta2 = 0.9, eps = 1.0, weight_decay = 0.0>, tessera.opt.shard = #tessera.opt.shard<axis = "data">, tessera.opt.partition = #tessera.opt.partition<"zero2">} : tensor<f32>
    return
  }
}

// -----

// What is imported is so once.
// CHECK-LABEL: func.func @imported
func.func @imported() attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<4xf32>
  tessera.schedule.recompute_hint {policy = "full"}
  // CHECK: tessera.target.import "r"
  %t, %old = tessera.target.import "r" : !tessera_sr.token, tensor<4xf32>
  // CHECK: tessera_sr.enter
  %r, %1 = tessera.resilience.region {name = "r"} {
    %0 = tessera.mul %w, %old : tensor<4xf32>
    %2 = tessera.exp %0 : tensor<4xf32>
    tessera.yield %2 : tensor<4xf32>
  } : !tessera_sr.token, tensor<4xf32>
  // CHECK-NOT: tessera.target.import
  // CHECK-NOT: tessera_sr.enter
  // CHECK: tessera.target.export
  tessera.target.export %r : !tessera_sr.token
  // CHECK-NOT: tessera.target.import
  // CHECK-NOT: tessera_sr.enter
  // CHECK: return
  %3 = tessera.tanh %1 : tensor<4xf32>
  %4 = tessera.exp %3 : tensor<4xf32>
  %loss = tessera.sum %4 {axes = [0]} : tensor<4xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}
