// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt -split-input-file --no-output -tsched-verify -tsched-apply -tsched-fuse %s 2>&1 | FileCheck %s

func.func private @f() { return }
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0420] tsched.fuse: source is "me"; known are "default" "safe" "model" "user" "autotune"
%g = tsched.fuse @f() {source = "me"}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0421] tsched.fuse: time_ns is -1; expected at least 0
%g = tsched.fuse @f() {time_ns = -1 : i64}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0427] tsched.fuse: there is no function @f
%g = tsched.fuse @f()

// -----
func.func private @f(%x: tensor<2xf32>) { return }
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0427] tsched.fuse: 0 values for @f, which takes 1
%g = tsched.fuse @f()

// -----
func.func private @f(%x: tensor<2x2xf32>) {
  %X = tsched.value %x : tensor<2x2xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0422] tsched.layout: 1 dims are sharded over 0 axes of the mesh
  tsched.layout %X {partition = ["batch"]}
  return
}

// -----
func.func private @f(%x: tensor<2x2xf32>) {
  %X = tsched.value %x : tensor<2x2xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0422] tsched.layout: mesh_axes names "dp" twice
  tsched.layout %X {partition = ["a", "b"], mesh_axes = ["dp", "dp"]}
  return
}

// -----
func.func private @f(%x: tensor<2xf32>) {
  %X = tsched.value %x : tensor<2xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0422] tsched.layout: 2 dims are sharded; the tensor has 1
  tsched.layout %X {partition = ["a", "b"], mesh_axes = ["dp", "tp"]}
  return
}

// -----
%g = tsched.fuse @f()
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0423] tsched.tile: candidate 1 has 1 sizes; the first has 2
tsched.tile %g candidates = [[1, 2], [3]]

// -----
%g = tsched.fuse @f()
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0423] tsched.tile: the chosen sizes are not one of the candidates
tsched.tile %g candidates = [[1, 2]] chosen = [2, 1]

// -----
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tessera.exp %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @plan(%x: tensor<2xf32>) {
  %X = tsched.value %x : tensor<2xf32>
  %g = tsched.fuse @f(%X)
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0423] tsched.tile: no op of @f has tiles
  tsched.tile %g chosen = [2]
  return
}

// -----
tsched.mesh.region "dp" of {dp = 2} {
  %g = tsched.fuse @f()
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0424] tsched.collective: the mesh has no axis "tp"
  tsched.collective %g {axis = "tp"}
}

// -----
tsched.mesh.region "dp" of {dp = 2} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0424] tsched.mesh.region: axis "dp" is already used by an enclosing region
  tsched.mesh.region "dp" {}
}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0424] tsched.mesh.region: axis "dp" has no size of at least 1
tsched.mesh.region "dp" of {dp = 0} {}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0420] tsched.pipeline.region: schedule is "gpipe"; known are "1f1b" "interleaved"
tsched.pipeline.region(schedule = "gpipe") attributes {stages = 1, microbatch = 1} {}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0425] tsched.pipeline: 0 stages, 1 microbatches, 1 chunks; expected 1 to 4096, 65536, 64
tsched.pipeline @f {stages = 0}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0425] tsched.pipeline.region: 3 microbatches are not a multiple of 2 stages
tsched.pipeline.region(schedule = "interleaved") attributes {stages = 2, microbatch = 3, chunks = 2} {}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0425] tsched.pipeline.region: 2 chunks; only "interleaved" has more than 1
tsched.pipeline.region(schedule = "1f1b") attributes {stages = 2, microbatch = 3, chunks = 2} {}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0426] tsched.pipeline.region: it holds 1 stages; expected 2 * 1
tsched.pipeline.region(schedule = "1f1b") attributes {stages = 2, microbatch = 3} {
  %0 = tsched.stage @s() on 0
}

// -----
tsched.pipeline.region(schedule = "1f1b") attributes {stages = 3, microbatch = 3} {
  %0 = tsched.stage @s() on 0
  %1 = tsched.stage @s(%0) on 1
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0426] tsched.stage: stage 2 does not read the stage before it
  %2 = tsched.stage @s(%0) on 2
}

// -----
tsched.pipeline.region(schedule = "1f1b") attributes {stages = 2, microbatch = 3} {
  %0 = tsched.stage @s() on 0
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0426] tsched.stage: stage 1 is on rank 0; expected rank 1
  %1 = tsched.stage @s(%0) on 0
}

// -----
tsched.module {
  %g = tsched.fuse @f()
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0428] tsched.return: value 0 is not a !tsched.func
  "tsched.return"(%g) : (!tsched.value) -> ()
}

// -----
func.func private @f(%x: tensor<2xf32>) {
  tsched.mesh.region "dp" of {dp = 2} {
    // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0429] tessera.exp: is in tsched.mesh.region, which may contain only plans
    %0 = tessera.exp %x : tensor<2xf32>
  }
  return
}

// -----
func.func @f(%a: tensor<4xf32> {tessera.name = "a"}) -> (tensor<4xf32> {tessera.name = "b"}) attributes {tessera.entry = "infer"} {
  // CHECK: [[@LINE+1]]:8: error: [TSR-0415] tessera.neg: tsched.tile is not an array of at most 8 integers
  %0 = tessera.neg %a {tsched.tile = 1.5 : f32} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----
func.func @f(%a: tensor<4x4xf32> {tessera.name = "a"}) -> (tensor<4x4xf32> {tessera.name = "b"}) attributes {tessera.entry = "infer"} {
  // CHECK: [[@LINE+1]]:8: error: [TSR-0415] tessera.matmul: tsched.tile is not an array of at most 8 integers
  %0 = tessera.matmul %a, %a {tsched.tile = [[0], "x"]} : tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0424] tsched.mesh.region: no mesh is declared here or around it
tsched.mesh.region "dp" {}

// -----
%g = tsched.fuse @f()
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0423] tsched.tile: candidate 1 is not an array of 1 to 12 sizes
tsched.tile %g candidates = [[1], "x"]

// -----
%g = tsched.fuse @f()
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0423] tsched.tile: chosen is not an array of 1 to 12 sizes
tsched.tile %g chosen = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]

// -----
%g = tsched.fuse @f()
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0423] tsched.tile: 1 loops for 2 sizes; expected one for each
tsched.tile %g chosen = [1, 2] {loops = ["i"]}

// -----
tsched.pipeline.region(schedule = "1f1b") attributes {stages = 2, microbatch = 3} {
  %0 = tsched.stage @s() on 0
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0426] tsched.stage: stage 1 reads the stage before it 2 times; expected once
  %1 = tsched.stage @s(%0, %0) on 1
}

// -----
%g = tsched.fuse @f()
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0420] tsched.collective: pattern is "gossip"; known are "all_reduce" "all_gather" "reduce_scatter" "all_to_all" "RS_MM_AG"
tsched.collective %g {pattern = "gossip"}

// -----
%g = tsched.fuse @f()
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0420] tsched.collective: topology is "carrier pigeon"; known are "nvlink" "pcie" "ib" "shm"
tsched.collective %g {topology = "carrier pigeon"}

// -----
func.func private @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = tessera.matmul %x, %x : tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func private @plan(%x: tensor<4x4xf32>) {
  %X = tsched.value %x : tensor<4x4xf32>
  %g = tsched.fuse @f(%X)
  tsched.tile %g chosen = [2]
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0423] tsched.tile: tessera.matmul of @f already has other sizes
  tsched.tile %g chosen = [3]
  return
}
