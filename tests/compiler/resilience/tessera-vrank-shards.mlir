// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-inline-regions -tessera-autodiff -tessera-optimizer-shard -tessera-vrank-shards -canonicalize -split-input-file %s | FileCheck %s
// What is behind: steps on parts are elementwise ops, sums are over virtual ranks.
// RUN: tessera-opt -tessera-inline-regions -tessera-autodiff -tessera-optimizer-shard -tessera-vrank-shards -tessera-local-collectives -tessera-decompose -tessera-virtual-ranks -canonicalize -cse -split-input-file %s | FileCheck %s --check-prefix=VRANKS
// Where there are more virtual ranks than positions of the axis, nothing changes.
// RUN: tessera-opt -tessera-inline-regions -tessera-autodiff -tessera-optimizer-shard -split-input-file %s | sed 's/data = 4 : i64/data = 4 : i64, dp = 2 : i64/' >%t.1
// RUN: tessera-opt -tessera-vrank-shards -split-input-file %t.1 | diff %t.1 -

// The gradient is whole on every rank; state and step are parts; the parameter is made whole.
// CHECK-LABEL: module @zero1
// VRANKS-LABEL: module @zero1
module @zero1 attributes {tessera.mesh = {data = 4}} {
  func.func @train(%x: tensor<8x9xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"})
      attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<9xf32>
    %y = tessera.mul %x, %w : (tensor<8x9xf32>, tensor<9xf32>) -> tensor<8x9xf32>
    %loss = tessera.mean %y {axes = [0, 1]} : tensor<8x9xf32> -> tensor<f32>
    // CHECK: %[[W:.*]] = tessera.param "w"
    // CHECK: %[[G:.*]] = tessera.sum
    // CHECK-NOT: all_reduce
    // CHECK: %[[V:.*]] = tessera.opt.state "w.velocity"
    // CHECK: %[[PW:.*]] = tessera_sr.vrank_part %[[W]] : tensor<9xf32> -> tensor<3xf32>
    // CHECK: %[[PG:.*]] = tessera_sr.vrank_part %[[G]] {tessera_sr.summed} : tensor<9xf32> -> tensor<3xf32>
    // CHECK: %[[PV:.*]] = tessera_sr.vrank_part %[[V]] : tensor<9xf32> -> tensor<3xf32>
    // CHECK: %[[NW:.*]], %[[NV:.*]] = tessera.sgd %[[PW]], %[[PG]], %[[PV]] {{.*}} : tensor<3xf32>
    // CHECK-NOT: tessera.sgd
    // CHECK-NOT: shard_slice
    // CHECK: %[[WHOLE:.*]] = tessera_sr.vrank_all_gather %[[NW]] : tensor<3xf32> -> tensor<9xf32>
    // CHECK: %[[KEPT:.*]] = tessera_sr.vrank_assemble %[[NV]] : tensor<3xf32> -> tensor<9xf32>
    // CHECK: tessera.assign %[[WHOLE]] to "w"
    // CHECK: tessera.assign %[[KEPT]] to "w.velocity"
    // VRANKS: %[[SUM:.*]] = tessera_sr.vrank_sum %{{.*}} : tensor<9xf32> -> tensor<9xf32>
    // VRANKS: tessera_sr.vrank_part %[[SUM]] {tessera_sr.summed} : tensor<9xf32> -> tensor<3xf32>
    // VRANKS: %[[STEP:.*]] = tessera.sub {{.*}} : tensor<3xf32>
    // VRANKS: tessera_sr.vrank_all_gather %[[STEP]] : tensor<3xf32> -> tensor<9xf32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>, tessera.opt.shard = #tessera.opt.shard<axis = "data">, tessera.opt.partition = #tessera.opt.partition<"zero1">} : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// Nobody needs the whole gradient. Of five elements position 3 holds none.
// CHECK-LABEL: module @zero2
// VRANKS-LABEL: module @zero2
module @zero2 attributes {tessera.mesh = {data = 4}} {
  func.func @train(%x: tensor<8x5xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"})
      attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<5xf32>
    %y = tessera.mul %x, %w : (tensor<8x5xf32>, tensor<5xf32>) -> tensor<8x5xf32>
    %loss = tessera.mean %y {axes = [0, 1]} : tensor<8x5xf32> -> tensor<f32>
    // CHECK: %[[G:.*]] = tessera.sum
    // CHECK: tessera_sr.vrank_part %[[G]] : tensor<5xf32> -> tensor<2xf32>
    // CHECK: tessera.sgd {{.*}} : tensor<2xf32>
    // CHECK-NOT: tessera.sgd
    // CHECK-NOT: reduce_scatter
    // CHECK: return
    // VRANKS: %[[SUM:.*]] = tessera_sr.vrank_sum %{{.*}} : tensor<5xf32> -> tensor<5xf32>
    // VRANKS: tessera_sr.vrank_part %[[SUM]] : tensor<5xf32> -> tensor<2xf32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>, tessera.opt.shard = #tessera.opt.shard<axis = "data">, tessera.opt.partition = #tessera.opt.partition<"zero2">} : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// The parameter lies in parts, and is gathered for who reads it, in other entries, too.
// CHECK-LABEL: module @zero3
// VRANKS-LABEL: module @zero3
module @zero3 attributes {tessera.mesh = {data = 4}} {
  func.func @train(%x: tensor<8x8xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"})
      attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<8xf32>
    %y = tessera.mul %x, %w : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
    %loss = tessera.mean %y {axes = [0, 1]} : tensor<8x8xf32> -> tensor<f32>
    // CHECK: %[[W:.*]] = tessera.param "w"
    // CHECK: %[[PART:.*]] = tessera_sr.vrank_part %[[W]] : tensor<8xf32> -> tensor<2xf32>
    // CHECK: %[[WHOLE:.*]] = tessera_sr.vrank_all_gather %[[PART]] : tensor<2xf32> -> tensor<8xf32>
    // CHECK: tessera.mul %{{.*}}, %[[WHOLE]]
    // CHECK: %[[NW:.*]], %{{.*}} = tessera.sgd
    // CHECK: %[[KEPT:.*]] = tessera_sr.vrank_assemble %[[NW]] : tensor<2xf32> -> tensor<8xf32>
    // CHECK: tessera.assign %[[KEPT]] to "w"
    // VRANKS: tessera_sr.vrank_all_gather
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>, tessera.opt.shard = #tessera.opt.shard<axis = "data">, tessera.opt.partition = #tessera.opt.partition<"zero3">} : tensor<f32>
    return %loss : tensor<f32>
  }

  // CHECK-LABEL: func.func @infer
  // VRANKS-LABEL: func.func @infer
  func.func @infer(%x: tensor<8x8xf32>) -> (tensor<8x8xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    // CHECK: %[[W:.*]] = tessera.param "w"
    // CHECK: %[[PART:.*]] = tessera_sr.vrank_part %[[W]] : tensor<8xf32> -> tensor<2xf32>
    // CHECK: %[[WHOLE:.*]] = tessera_sr.vrank_all_gather %[[PART]] : tensor<2xf32> -> tensor<8xf32>
    // CHECK: tessera.mul %{{.*}}, %[[WHOLE]]
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<8xf32>
    %y = tessera.mul %x, %w : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
    return %y : tensor<8x8xf32>
  }
}

// -----

// The norm of clipped gradients is of what steps have parts of; of nine elements the last three are behind the end.
// CHECK-LABEL: module @clipped
// VRANKS-LABEL: module @clipped
module @clipped attributes {tessera.mesh = {data = 4}} {
  func.func @train(%x: tensor<8x9xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}, tensor<f32> {tessera.name = "grad_norm"})
      attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<9xf32>
    %y = tessera.mul %x, %w : (tensor<8x9xf32>, tensor<9xf32>) -> tensor<8x9xf32>
    %loss = tessera.mean %y {axes = [0, 1]} : tensor<8x9xf32> -> tensor<f32>
    // CHECK: %[[PG:.*]] = tessera_sr.vrank_part %{{.*}} : tensor<9xf32> -> tensor<3xf32>
    // CHECK: %[[SQUARES:.*]] = tessera_sr.squares %[[PG]] : tensor<3xf32> -> tensor<4xf32>
    // CHECK: tessera.sqrt
    // CHECK: %[[NORM:.*]] = tessera.where
    // CHECK: %[[SCALE:.*]] = tessera.min
    // CHECK: tessera.sgd %{{.*}}, %[[PG]], %{{.*}}, %[[SCALE]] {{.*}} : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<f32>)
    // CHECK: return %{{.*}}, %[[NORM]]
    // VRANKS: %[[PART:.*]] = tessera_sr.vrank_part %{{.*}} : tensor<9xf32> -> tensor<3xf32>
    // VRANKS: %[[IN:.*]] = tessera.compare lt
    // VRANKS: %[[VALID:.*]] = tessera.where %[[IN]], %[[PART]], %{{.*}}
    // VRANKS: %[[SQUARE:.*]] = tessera.mul %[[VALID]], %[[VALID]]
    // VRANKS: %[[SUM:.*]] = tessera.sum %[[SQUARE]] {axes = [0]} : tensor<3xf32> -> tensor<f32>
    // VRANKS: %[[ONE:.*]] = tessera.broadcast %[[SUM]] : tensor<f32> -> tensor<1xf32>
    // VRANKS: tessera_sr.vrank_gather %[[ONE]] : tensor<1xf32> -> tensor<4xf32>
    %norm = tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>, clip_norm = 0.5, tessera.opt.shard = #tessera.opt.shard<axis = "data">, tessera.opt.partition = #tessera.opt.partition<"zero2">} : tensor<f32>
    return %loss, %norm : tensor<f32>, tensor<f32>
  }
}

// -----

// Steps that nothing joins, or in no order of positions, stay as they are.
// RUN: tessera-opt -tessera-vrank-shards -split-input-file %s | FileCheck %s --check-prefix=ALONE
// ALONE-LABEL: func.func @alone
module attributes {tessera.mesh = {data = 2}} {
  func.func @alone() attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<4xf32>
    // ALONE-COUNT-2: tessera_sr.shard_slice
    %0 = tessera_sr.shard_slice %w {axis = "data", begin = 0 : i64, end = 2 : i64, position = 0 : i64} : (tensor<4xf32>) -> tensor<2xf32>
    %1 = tessera_sr.shard_slice %w {axis = "data", begin = 2 : i64, end = 4 : i64, position = 1 : i64} : (tensor<4xf32>) -> tensor<2xf32>
    // ALONE-COUNT-2: tessera.sgd
    %2:2 = tessera.sgd %0, %0, %0 {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<2xf32>
    %3:2 = tessera.sgd %1, %1, %1 {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<2xf32>
    // ALONE: tessera_sr.all_gather
    %4 = tessera_sr.all_gather %3#0, %2#0 {axis = "data"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
    // ALONE: tessera_sr.all_gather
    %5 = tessera_sr.all_gather %0, %0 {axis = "data"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
    tessera.assign %4 to "w" : tensor<4xf32>
    return
  }
}

// -----

// Of a gradient that is whole the norm is taken of the sum that the step reads: there is no other.
// CHECK-LABEL: module @clipped_whole
// VRANKS-LABEL: module @clipped_whole
module @clipped_whole attributes {tessera.mesh = {data = 4}} {
  func.func @train(%x: tensor<8x9xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<9xf32>
    %y = tessera.mul %x, %w : (tensor<8x9xf32>, tensor<9xf32>) -> tensor<8x9xf32>
    %loss = tessera.mean %y {axes = [0, 1]} : tensor<8x9xf32> -> tensor<f32>
    // VRANKS: tessera_sr.vrank_sum %{{.*}} : tensor<f32> -> tensor<f32>
    // VRANKS: %[[G:.*]] = tessera_sr.vrank_sum %{{.*}} : tensor<9xf32> -> tensor<9xf32>
    // VRANKS: tessera.mul %[[G]], %[[G]]
    // VRANKS-NOT: vrank_sum
    // VRANKS: return
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>, clip_norm = 0.5} : tensor<f32>
    return %loss : tensor<f32>
  }
}
