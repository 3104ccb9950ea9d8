// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt -tessera-inline-regions -tessera-autodiff -tessera-insert-recompute -split-input-file --no-output %s 2>&1 | FileCheck %s

// CHECK: [[@LINE+1]]:1: error: [TSR-0608] '@f': segment 0 must save 16 bytes even if it recomputes everything else; its budget is 15
func.func @f() {
  %x = tessera.param "x" init = #tessera.constant<1.0> : tensor<2x2xf32>
  %a = tessera.add %x, %x : tensor<2x2xf32>
  %b = tessera.schedule.checkpoint {budget_bytes = 15} {
    %0 = tessera.tanh %a : tensor<2x2xf32>
    %1 = tessera.exp %0 : tensor<2x2xf32>
    %2 = tessera.tanh %1 : tensor<2x2xf32>
    tessera.yield %2 : tensor<2x2xf32>
  } : tensor<2x2xf32>
  %loss = tessera.sum %b {axes = [0, 1]} : tensor<2x2xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  // CHECK: [TSR-0607] tessera_sr.barrier: 1 results must have the types of the first of 2 operands
  %0 = tessera_sr.barrier %x, %y : (tensor<4xf32>, tensor<5xf32>) -> tensor<5xf32>
  return
}

// -----

// One hint may come along with each call of a function; two that differ are refused.
func.func @two(%x: tensor<4xf32>) -> tensor<4xf32> {
  tessera_sr.recompute_hint {policy = "full"}
  tessera_sr.recompute_hint {policy = "full"}
  // CHECK: [[@LINE+1]]:3: error: [TSR-0601] tessera_sr.recompute_hint: policy is "full" with a budget of 64 bytes; the function has "full" without a budget
  tessera_sr.recompute_hint {policy = "full", budget_bytes = 64 : i64}
  return %x : tensor<4xf32>
}
