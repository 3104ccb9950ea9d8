// SPDX-License-Identifier: Apache-2.0
// Functions that change tensors, called where they may be.
// RUN: tessera-opt -tessera-verify %s | FileCheck %s

func.func private @assigns(%x: tensor<f32>) -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<f32>
  %y = tessera.mul %x, %w : tensor<f32>
  tessera.assign %y to "w" : tensor<f32>
  return %y : tensor<f32>
}

func.func private @calls(%x: tensor<f32>) -> tensor<f32> {
  %y = func.call @assigns(%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

func.func private @reads(%x: tensor<f32>) -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<f32>
  %y = tessera.mul %x, %w : tensor<f32>
  return %y : tensor<f32>
}

// A loop of a function that changes tensors itself.
func.func private @loops(%x: tensor<f32>) -> tensor<f32> {
  %y = tessera.scan %x {
  ^bb0(%a: tensor<f32>):
    %0 = func.call @reads(%a) : (tensor<f32>) -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } {carried = 1 : i64, length = 300 : i64} : tensor<f32> -> tensor<f32>
  tessera.assign %y to "v" : tensor<f32>
  return %y : tensor<f32>
}

// CHECK-LABEL: func.func @f
// CHECK: call @calls
// CHECK: call @loops
// CHECK: tessera.schedule.checkpoint
// CHECK-NEXT: call @calls
// CHECK: tessera.resilience.region
// CHECK-NEXT: call @calls
// CHECK: tessera.minimize
func.func @f(%x: tensor<f32> {tessera.name = "x"}) attributes {tessera.entry = "train"} {
  %v = tessera.param "v" init = #tessera.constant<0.5> : tensor<f32>
  %0 = func.call @calls(%x) : (tensor<f32>) -> tensor<f32>
  %1 = func.call @loops(%0) : (tensor<f32>) -> tensor<f32>
  %2 = tessera.schedule.checkpoint {
    %3 = func.call @calls(%1) : (tensor<f32>) -> tensor<f32>
    tessera.yield %3 : tensor<f32>
  } : tensor<f32>
  %t, %4 = tessera.resilience.region {
    %3 = func.call @calls(%2) : (tensor<f32>) -> tensor<f32>
    tessera.yield %3 : tensor<f32>
  } : !tessera_sr.token, tensor<f32>
  tessera.minimize %4 {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}
