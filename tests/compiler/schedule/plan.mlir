// SPDX-License-Identifier: Apache-2.0
// Meshes and pipelines print as they are written; pass tsched-pipeline notes what a schedule comes to.
// RUN: tessera-opt -tsched-verify -tsched-pipeline %s | tessera-opt | FileCheck %s
// RUN: tessera-opt -tsched-verify -tsched-pipeline -mlir-print-op-generic %s | tessera-opt | FileCheck %s

func.func private @s(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// CHECK: tsched.mesh.region "data" of {data = 4 : i64, model = 2 : i64} {
tsched.mesh.region "data" of {data = 4, model = 2} {
  // CHECK-NEXT: tsched.mesh.region "model" {
  tsched.mesh.region "model" {
    // CHECK-NEXT: tsched.pipeline @s {axis = "model"}
    tsched.pipeline @s {axis = "model"}
  }
}

// 1F1B: min(p - 1 - r, m) forward steps first, min(p - r, m) live, (p - 1) / (m + p - 1) idle.
// CHECK: tsched.pipeline.region(schedule = "1f1b") attributes
// CHECK-SAME: axis = "pp", bubble = 2.000000e-01 : f64, live = [3, 2, 1], microbatch = 8 : i64, stages = 3 : i64, warmup = [2, 1, 0]
tsched.pipeline.region(schedule = "1f1b") attributes {stages = 3, microbatch = 8, axis = "pp"} {
  // CHECK: %[[S:.*]] = tsched.stage @s() on 0
  %0 = tsched.stage @s() on 0
  // CHECK-NEXT: tsched.stage @s(%[[S]]) on 1
  %1 = tsched.stage @s(%0) on 1
  %2 = tsched.stage @s(%1) on 2
}

// Interleaved: 2 (p - 1 - r) + (v - 1) p forward steps first, (p - 1) / (v m + p - 1) idle.
// CHECK: tsched.pipeline.region(schedule = "interleaved") attributes
// CHECK-SAME: bubble = 0.1111{{[0-9]*}} : f64, chunks = 2 : i64, live = [5, 3], microbatch = 4 : i64, warmup = [4, 2]
tsched.pipeline.region(schedule = "interleaved") attributes {microbatch = 4, chunks = 2} {
  %0 = tsched.stage @s() on 0
  %1 = tsched.stage @s(%0) on 1
  %2 = tsched.stage @s(%1) on 0
  %3 = tsched.stage @s(%2) on 1
}
