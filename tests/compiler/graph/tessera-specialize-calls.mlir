// SPDX-License-Identifier: Apache-2.0
// Calls with a prefix are of functions with tensors of their own; prefixes of calls in calls are put together.
// RUN: tessera-opt -tessera-specialize-calls -split-input-file %s | FileCheck %s
// Twice is as once; what is inlined afterwards reads these tensors, and draws of each call have a stream of their own.
// RUN: tessera-opt -tessera-specialize-calls -tessera-specialize-calls -split-input-file %s | FileCheck %s
// RUN: tessera-opt -tessera-specialize-calls -tessera-verify -tessera-name-calls -inline -tessera-streams -tessera-drop-other-functions -split-input-file %s | FileCheck %s --check-prefix=FLAT

// CHECK-NOT: @attn(
// CHECK-NOT: @block(
// CHECK: func.func private @plain
// CHECK-NEXT: tessera.param "scale" init = #tessera.constant<1.0> : tensor<f32>
// CHECK: func.func @infer
// CHECK: call @"block[h.0]"(%arg0)
// CHECK: call @"block[h.1]"
// CHECK: call @"block[h.0]"
// CHECK: call @plain
// CHECK: func.func private @"block[h.0]"
// CHECK-NEXT: call @"attn[h.0.attn]"
// CHECK-NEXT: call @"plain[h.0]"
// CHECK: func.func private @"block[h.1]"
// CHECK: func.func private @"attn[h.1.attn]"
// CHECK-NEXT: tessera.param "h.1.attn.scale"
// CHECK: func.func private @"plain[h.1]"
// CHECK-NEXT: tessera.param "h.1.scale"
// FLAT-LABEL: func.func @infer
// FLAT: tessera.param "h.0.attn.scale"
// FLAT: tessera.dropout {{.*}}stream = [[FIRST:[0-9]+]]
// FLAT: tessera.param "h.0.scale"
// FLAT: tessera.param "h.1.attn.scale"
// FLAT-NOT: stream = [[FIRST]]
// FLAT: tessera.dropout
// FLAT: tessera.param "h.1.scale"
// FLAT-NOT: stream = [[FIRST]]
// FLAT: tessera.param "scale"
// FLAT-NOT: func.func
func.func private @attn(%x: tensor<4xf32>) -> tensor<4xf32> {
  %scale = tessera.param "scale" init = #tessera.constant<1.0> : tensor<4xf32>
  %0 = tessera.dropout %x {rate = 0.5} : tensor<4xf32>
  %1 = tessera.mul %0, %scale : tensor<4xf32>
  return %1 : tensor<4xf32>
}
// Another tensor of the same name, of another type.
func.func private @plain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %scale = tessera.param "scale" init = #tessera.constant<1.0> : tensor<f32>
  %0 = tessera.mul %x, %scale : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @block(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @attn(%x) {tessera.prefix = "attn"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @plain(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @infer(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  %0 = call @block(%x) {tessera.prefix = "h.0"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @block(%0) {tessera.prefix = "h.1"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = call @block(%1) {tessera.prefix = "h.0"} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = call @plain(%2) : (tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
// -----
// Calls in regions, states, assigned tensors; @count is scanned before it is copied.
// CHECK: func.func private @count
// CHECK: tessera.if
// CHECK: call @"one[a]"
// CHECK: call @"see[a]"
// CHECK: func.func @train
// CHECK-NEXT: call @count
// CHECK-NEXT: call @"twice[b]"
// CHECK: func.func private @"twice[b]"
// CHECK-NEXT: call @"count[b]"
// CHECK: func.func private @"count[b]"
// CHECK: call @"one[b.a]"
// CHECK: func.func private @"see[b.a]"
// CHECK-NEXT: tessera.opt.state "b.a.w.seen" of "b.a.w"
// CHECK: tessera.assign {{.*}} to "b.a.w.seen"
// FLAT-LABEL: func.func @train
// FLAT: tessera.opt.state "a.w.seen" of "a.w"
// FLAT: tessera.opt.state "b.a.w.seen" of "b.a.w"
func.func private @one(%x: tensor<f32>) -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<f32>
  %0 = tessera.mul %x, %w : tensor<f32>
  return %0 : tensor<f32>
}
func.func private @see(%x: tensor<f32>) {
  %s = tessera.opt.state "w.seen" of "w" kind "seen" init = #tessera.constant<0.0> : tensor<f32>
  %0 = tessera.add %s, %x : tensor<f32>
  tessera.assign %0 to "w.seen" : tensor<f32>
  return
}
func.func private @count(%x: tensor<f32>) -> tensor<f32> {
  %c = tessera.constant dense<true> : tensor<i1>
  %0 = tessera.if %c {
    %1 = func.call @one(%x) {tessera.prefix = "a"} : (tensor<f32>) -> tensor<f32>
    tessera.yield %1 : tensor<f32>
  } else {
    tessera.yield %x : tensor<f32>
  } : tensor<i1> -> tensor<f32>
  call @see(%0) {tessera.prefix = "a"} : (tensor<f32>) -> ()
  return %0 : tensor<f32>
}
func.func private @twice(%x: tensor<f32>) -> tensor<f32> {
  %0 = call @count(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @train(%x: tensor<f32> {tessera.name = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  %0 = call @count(%x) : (tensor<f32>) -> tensor<f32>
  %1 = call @twice(%0) {tessera.prefix = "b"} : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
