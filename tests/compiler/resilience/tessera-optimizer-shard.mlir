// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-inline-regions -tessera-autodiff -tessera-optimizer-shard -split-input-file %s | FileCheck %s
// RUN: tessera-opt -tessera-inline-regions -tessera-autodiff -tessera-optimizer-shard -tessera-local-collectives -split-input-file %s | FileCheck %s --check-prefix=LOCAL
// Without declarations nothing changes.
// RUN: tessera-opt -inline -tessera-autodiff %examples/digits/digits.mlir >%t.1
// RUN: tessera-opt -tessera-inline-regions -tessera-optimizer-shard -tessera-local-collectives %t.1 | diff %t.1 -

// LOCAL-NOT: tessera_sr.shard_slice
// LOCAL-NOT: tessera_sr.all_gather
// LOCAL-NOT: tessera_sr.reduce_scatter
// LOCAL: tessera.concat

// Three elements over four positions: each holds one, the last none. The op names one parameter; the other is not touched.
module attributes {tessera.mesh = {data = 4, model = 1}} {
  // CHECK-LABEL: func.func @zero2
  // CHECK-SAME: tessera_sr.sharded = [4, 12, 4, 4, 72]
  func.func @zero2() {
    // CHECK: %[[W:.*]] = tessera.param "w"
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<3xf32>
    %u = tessera.param "u" init = #tessera.constant<1.0> : tensor<3xf32>
    %m = tessera.opt.state of "w" kind "velocity" : !tessera.opt.state<of = tensor<3xf32>, kind = "velocity">
    %s:2 = tessera.optimizer.shard %w, %m {axis = "data", policy = "zero2", mesh = ["data", "model"]} : (tensor<3xf32>, !tessera.opt.state<of = tensor<3xf32>, kind = "velocity">) -> (tensor<3xf32>, !tessera.opt.state<of = tensor<3xf32>, kind = "velocity">)
    %0 = tessera.mul %s#0, %u : tensor<3xf32>
    %loss = tessera.sum %0 {axes = [0]} : tensor<3xf32> -> tensor<f32>
    // CHECK: tessera_sr.shard_slice %[[W]] {axis = "data", begin = 0 : i64, end = 1 : i64, position = 0 : i64} : (tensor<3xf32>) -> tensor<1xf32>
    // CHECK: tessera_sr.reduce_scatter %[[G:.*]] {axis = "data", begin = 0 : i64, end = 1 : i64, position = 0 : i64}
    // CHECK: tessera.sgd {{.*}} : tensor<1xf32>
    // CHECK: tessera_sr.reduce_scatter %[[G]] {axis = "data", begin = 1 : i64
    // CHECK: tessera_sr.reduce_scatter %[[G]] {axis = "data", begin = 2 : i64
    // CHECK-NOT: tessera_sr.reduce_scatter
    // CHECK: %[[NEXT:.*]] = tessera_sr.all_gather %{{.*}}, %{{.*}}, %{{.*}} {axis = "data"} : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<3xf32>
    // CHECK: %[[STATE:.*]] = tessera_sr.assemble
    // CHECK: tessera.assign %[[NEXT]] to "w"
    // CHECK: tessera.assign %[[STATE]] to "w.velocity"
    // CHECK: tessera.sgd {{.*}} : tensor<3xf32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    return
  }
}

// -----

// A frozen parameter has no step: it stays whole at every stage, also if an op asks for its shards.
module attributes {tessera.mesh = {data = 4}} {
  // CHECK-LABEL: func.func @frozen
  // CHECK: %[[F:.*]] = tessera.param "f" {frozen}
  // CHECK-NOT: tessera_sr.shard_slice %[[F]]
  // CHECK: %[[T:.*]] = tessera.param "t"
  // CHECK: tessera_sr.shard_slice %[[T]]
  // CHECK-NOT: tessera_sr.shard_slice %[[F]]
  // CHECK: tessera.mul %[[F]], %{{.*}} : tensor<4xf32>
  // CHECK-NOT: tessera_sr.shard_slice %[[F]]
  // CHECK: return
  func.func @frozen() {
    %f = tessera.param "f" {frozen} init = #tessera.constant<1.0> : tensor<4xf32>
    %t = tessera.param "t" init = #tessera.constant<1.0> : tensor<4xf32>
    %s = tessera.optimizer.shard %f {axis = "data", policy = "zero3"} : (tensor<4xf32>) -> tensor<4xf32>
    %0 = tessera.mul %s, %t : tensor<4xf32>
    %loss = tessera.sum %0 {axes = [0]} : tensor<4xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>, tessera.opt.shard = #tessera.opt.shard<axis = "data">, tessera.opt.partition = #tessera.opt.partition<"zero3">} : tensor<f32>
    return
  }
}
