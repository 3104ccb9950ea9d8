// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-inline-regions -tessera-autodiff -tessera-optimizer-shard -tessera-export-deployment-manifest -split-input-file %s | FileCheck %s
// Without mesh, shards, recomputation or request nothing changes.
// RUN: tessera-opt -inline -tessera-autodiff %examples/digits/digits.mlir >%t.1
// RUN: tessera-opt -tessera-export-deployment-manifest %t.1 | diff %t.1 -

// Run again, it says the same, and what was asked for.
// RUN: tessera-opt -tessera-inline-regions -tessera-autodiff -tessera-optimizer-shard -tessera-export-deployment-manifest -split-input-file %s >%t.2
// RUN: tessera-opt -tessera-export-deployment-manifest -split-input-file %t.2 | diff %t.2 -

// Three elements over four positions: the last holds none. Zero2 shards state and gradient; the parameter is gathered. Which collectives run, the host
// program says: none stands here yet.
// CHECK: tessera_sr.deployment = "{\22include\22:3,\22path\22:\22m.json\22,\22axes\22:[{\22name\22:\22data\22,\22size\22:4,\22batch\22:true}]
// CHECK-SAME: \22shards\22:[{\22tensor\22:\22w.velocity\22,\22axis\22:\22data\22,\22ends\22:[1,2,3,3]}]
// CHECK-SAME: \22collectives\22:[],\22recomputes\22:[],\22steps\22:[{\22entry\22:\22f\22,\22tensor\22:\22w\22}]}"
module attributes {tessera.mesh = {data = 4}} {
  func.func @f() {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<3xf32>
    %s = tessera.optimizer.shard %w {axis = "data", policy = "zero2"} : (tensor<3xf32>) -> tensor<3xf32>
    %0 = tessera.mul %s, %s : tensor<3xf32>
    %loss = tessera.sum %0 {axes = [0]} : tensor<3xf32> -> tensor<f32>
    // CHECK-NOT: export_manifest
    tessera.system.export_manifest {path = "m.json", include = ["mesh", "pipeline"]}
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.5, weight_decay = 0.0>} : tensor<f32>
    return
  }
}

// -----

// Zero3 shards the parameter, too, and gathers it before its first use.
// CHECK: tessera_sr.deployment = "{\22include\22:0,
// CHECK-SAME: {\22tensor\22:\22w\22,\22axis\22:\22data\22,\22ends\22:[2,3]}
// CHECK-SAME: {\22tensor\22:\22w.velocity\22,\22axis\22:\22data\22,\22ends\22:[2,3]}
module attributes {tessera.mesh = {data = 2}} {
  func.func @f() {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<3xf32>
    %s = tessera.optimizer.shard %w {axis = "data", policy = "zero3"} : (tensor<3xf32>) -> tensor<3xf32>
    %0 = tessera.mul %s, %s : tensor<3xf32>
    %loss = tessera.sum %0 {axes = [0]} : tensor<3xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.5, weight_decay = 0.0>} : tensor<f32>
    return
  }
}

// -----

// The positions of an axis that does not divide the batch are all on every rank: nothing is sharded.
// CHECK: tessera_sr.deployment = "{\22include\22:0,
// CHECK-SAME: {\22name\22:\22data\22,\22size\22:2,\22batch\22:true},{\22name\22:\22model\22,\22size\22:2,\22batch\22:false}],\22shards\22:[],
module attributes {tessera.mesh = {data = 2, model = 2}} {
  func.func @f() {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<3xf32>
    %s = tessera.optimizer.shard %w {axis = "model", policy = "zero3"} : (tensor<3xf32>) -> tensor<3xf32>
    %0 = tessera.mul %s, %s : tensor<3xf32>
    %loss = tessera.sum %0 {axes = [0]} : tensor<3xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.5, weight_decay = 0.0>} : tensor<f32>
    return
  }
}

// -----

// Pipelines that the program plans; the plans themselves may be gone.
// RUN: tessera-opt -tsched-apply -tessera-export-deployment-manifest -split-input-file %s | FileCheck %s --check-prefix=APPLIED
// CHECK: tessera_sr.deployment = "{\22include\22:2,
// CHECK-SAME: \22pipelines\22:[{\22schedule\22:\22interleaved\22,\22axis\22:\22pp\22,\22ranks\22:1,\22microbatches\22:4,\22chunks\22:2,\22stages\22:[{\22index\22:0,\22rank\22:0,\22after\22:[],\22function\22:\22first\22},{\22index\22:1,\22rank\22:0,\22after\22:[0],\22function\22:\22second\22}]}
// CHECK-SAME: {\22schedule\22:\221f1b\22,\22function\22:\22first\22,\22ranks\22:3,\22microbatches\22:8,\22chunks\22:1,\22stages\22:[]}]}"
// APPLIED-NOT: tsched.pipelines
// APPLIED: tessera_sr.deployment = "{\22include\22:2,
// APPLIED-SAME: \22pipelines\22:[{\22schedule\22:\22interleaved\22
// APPLIED-SAME: {\22schedule\22:\221f1b\22
// APPLIED-NOT: tsched.pipeline
module {
  func.func @first() {
    tessera.system.export_manifest {include = ["pipeline"]}
    return
  }
  func.func @second() {
    return
  }
  tsched.mesh.region "pp" of {pp = 1} {
    tsched.pipeline.region(schedule = "interleaved") attributes {microbatch = 4, chunks = 2, axis = "pp"} {
      %0 = tsched.stage @first() on 0
      %1 = tsched.stage @second(%0) on 0
    }
  }
  tsched.pipeline @first {stages = 3, microbatch = 8}
}

