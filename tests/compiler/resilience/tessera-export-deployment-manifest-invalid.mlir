// SPDX-License-Identifier: Apache-2.0
// What is asked for in a way that is not understood, and what a hand has made of notes on the module.
// RUN: not tessera-opt -tessera-export-deployment-manifest -split-input-file --no-output %s 2>&1 | FileCheck %s

// -----
func.func @f() {
  tessera_sr.export_manifest {path = "a.json"}
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0604] tessera_sr.export_manifest: the manifest is requested twice
  tessera_sr.export_manifest {path = "b.json"}
  return
}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0604] tsched.pipelines of the module: element 0 is not a pipeline
module attributes {tsched.pipelines = [7]} {
}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0604] tsched.pipelines of the module: element 0 is not a pipeline
module attributes {tsched.pipelines = [{schedule = "1f1b", ranks = 0, microbatches = 1, chunks = 1, stages = []}]} {
}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0604] tsched.pipelines of the module: element 0 is not a pipeline
module attributes {tsched.pipelines = [{schedule = "1f1b", ranks = 1, microbatches = 1, chunks = 1, stages = [1]}]} {
}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0604] deployment: offset 1: expected a key, got the end
module attributes {tessera_sr.deployment = "{"} {
}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0606] axis 'data', over which 'w' is sharded, has 2048 positions; at most 1024
module attributes {tessera.mesh = {data = 2048}} {
  func.func @f() attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<4xf32>
    %0 = tessera_sr.shard_slice %w {axis = "data", begin = 0 : i64, end = 4 : i64, position = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %1:2 = tessera.sgd %0, %0, %0 {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<4xf32>
    %2 = tessera_sr.all_gather %1#0 {axis = "data"} : (tensor<4xf32>) -> tensor<4xf32>
    tessera.assign %2 to "w" : tensor<4xf32>
    return
  }
}
