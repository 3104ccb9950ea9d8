// SPDX-License-Identifier: Apache-2.0
// What is asked for in a way that is not understood, and what a hand has made of notes on the module.
// RUN: not tessera-opt -tessera-export-deployment-manifest -split-input-file --no-output %s 2>&1 | FileCheck %s

// -----
func.func @f() {
  tessera_sr.export_manifest {path = "a.json"}
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0604] tessera_sr.export_manifest: the manifest is asked for twice
  tessera_sr.export_manifest {path = "b.json"}
  return
}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0604] tsched.pipelines of the module: element 0 is no pipeline
module attributes {tsched.pipelines = [7]} {
}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0604] tsched.pipelines of the module: element 0 is no pipeline
module attributes {tsched.pipelines = [{schedule = "1f1b", ranks = 0, microbatches = 1, chunks = 1, stages = []}]} {
}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0604] tsched.pipelines of the module: element 0 is no pipeline
module attributes {tsched.pipelines = [{schedule = "1f1b", ranks = 1, microbatches = 1, chunks = 1, stages = [1]}]} {
}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0604] deployment: offset 1: expected a key, got the end
module attributes {tessera_sr.deployment = "{"} {
}
