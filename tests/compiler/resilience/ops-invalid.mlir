// SPDX-License-Identifier: Apache-2.0
// What each op refuses.
// RUN: not tessera-opt -split-input-file --no-output %s 2>&1 | FileCheck %s

func.func @f() {
  // CHECK: ops-invalid.mlir:[[@LINE+1]]:3: error: [TSR-0601] tessera_sr.checkpoint: policy is "some", must be "full", "selective" or "none"
  tessera_sr.checkpoint {} {policy = "some"}
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0601] tessera.schedule.recompute_hint: policy is "some"
  tessera.schedule.recompute_hint {policy = "some"}
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0601] tessera.schedule.checkpoint: budget_bytes is -1, needs at least 0
  tessera.schedule.checkpoint {budget_bytes = -1 : i64} {}
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0602] tessera.resilience.region: mode is "again", must be "replay" or "restart"
  %t = tessera.resilience.region {mode = "again"} {} : !tessera.res.token
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: [TSR-0603] tessera_sr.checkpoint: yields 0 values, but has 1 results
  %a = tessera_sr.checkpoint {} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  %a = tessera_sr.checkpoint {
    // CHECK: [[@LINE+1]]:5: error: [TSR-0603] tessera_sr.checkpoint: the type of yielded value 0 differs from the result's
    tessera.yield %x : tensor<4xf32>
  } : tensor<5xf32>
  return
}

// -----

func.func @f() {
  tessera_sr.checkpoint {
    // CHECK: [TSR-0603] tessera_sr.checkpoint: a region ends with tessera.yield or nothing, not with func.return
    func.return
  }
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0603] tessera_sr.resilience_region: its block has 1 arguments, needs none
  %t = "tessera_sr.resilience_region"() ({
  ^bb0(%x: tensor<4xf32>):
    tessera_sr.recompute_hint
  }) : () -> !tessera_sr.token
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0604] tessera_sr.export_manifest: include[1] is "weights", must be "mesh", "pipeline"
  tessera_sr.export_manifest {include = ["mesh", "weights"]}
  return
}

// -----

func.func @f() {
  // CHECK: [TSR-0604] tessera.system.export_manifest: path is empty
  tessera.system.export_manifest {path = ""}
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0605] tessera.optimizer.shard: policy is "zero4", must be "zero1", "zero2" or "zero3"
  %0 = tessera.optimizer.shard %p {axis = "data", policy = "zero4"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0605] tessera.optimizer.shard: has 1 operands and 0 results; needs at least one, and the same number of both
  tessera.optimizer.shard %p {axis = "data"} : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0605] tessera.optimizer.shard: the type of result 0 differs from the operand's
  %0 = tessera.optimizer.shard %p {axis = "data"} : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @f(%p: i32) {
  // CHECK: [TSR-0605] tessera.optimizer.shard: operand 0 is neither a tensor nor !tessera.opt.state
  %0 = tessera.optimizer.shard %p {axis = "data"} : (i32) -> i32
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0605] tessera.optimizer.shard: partition is "zero9", must be
  %0 = tessera.optimizer.shard %p {partition = #tessera.opt.partition<"zero9">} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0605] tessera.optimizer.shard: shard is not a #tessera.opt.shard
  %0 = tessera.optimizer.shard %p {shard = #tessera.opt.partition<"zero1">} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0605] tessera.optimizer.shard: offload is "tape", must be "host" or "nvme"
  %0 = tessera.optimizer.shard %p {offload = #tessera.opt.offload<"tape">} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%p: tensor<4xf32>) {
  // CHECK: [TSR-0606] tessera.optimizer.shard: mesh must be names of axes: "dataxmodel" or ["data", "model"]
  %0 = tessera.optimizer.shard %p {mesh = [1, 2]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf16>, %b: tensor<4x4xf16>) {
  // CHECK: [TSR-0102] tessera.tile.gemm: [M, K] times [K, N] gives [M, N] of floats; has 2x3xf16, 4x4xf16 and 2x4xf32
  %0 = tessera.tile.gemm %a, %b : (tensor<2x3xf16>, tensor<4x4xf16>) -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xi8>, %b: tensor<3x4xi4>) {
  // CHECK: [TSR-0104] tessera.tile.gemm: operands and result must be tensors of floats
  %0 = tessera.tile.gemm %a, %b : (tensor<2x3xi8>, tensor<3x4xi4>) -> tensor<2x4xf32>
  return
}

// -----

// CHECK: dialect tessera has no type 'opt.shape'
func.func @f(%a: !tessera.opt.shape) {
  return
}

// -----

func.func @f() {
  // CHECK: error: [TSR-0001]
  tessera.resilience.on_failure()
  return
}

// -----

func.func @f(%w: tensor<3x3xf32>) {
  // CHECK: error: [TSR-0609] tessera_sr.vrank_part: the result's type differs from the type that a virtual rank has
  %0 = tessera_sr.vrank_part %w : tensor<3x3xf32> -> tensor<3x1xf32>
  return
}

// -----

func.func @f(%w: tensor<3xbf16>) {
  // CHECK: error: [TSR-0609] tessera_sr.vrank_all_gather: the result's type differs from the type that a virtual rank has
  %0 = tessera_sr.vrank_all_gather %w : tensor<3xbf16> -> tensor<3x3xf32>
  return
}

// -----

func.func @f(%w: tensor<10xf32>) {
  // CHECK: error: [TSR-0609] tessera_sr.vrank_assemble: the result's type differs from the type that a virtual rank has
  %0 = tessera_sr.vrank_assemble %w : tensor<10xf32> -> tensor<3x3xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4xf32>) {
  %n = tessera.neg %x : tensor<8x4xf32>
  // CHECK: [TSR-0609] tessera_sr.vrank_rows: the operand is not an argument of the function
  %0 = tessera_sr.vrank_rows %n : tensor<8x4xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4xf64>) {
  // CHECK: [TSR-0609] tessera_sr.squares: the result is not one sum of squares for each part
  %0 = tessera_sr.squares %x : tensor<8x4xf64> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4xi64>) {
  // CHECK: [TSR-0609] tessera_sr.squares: the result is not one sum of squares for each part
  %0 = tessera_sr.squares %x : tensor<8x4xi64> -> tensor<4xi64>
  return
}

// -----
func.func @f() {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0601] tessera_sr.recompute_hint: budget_bytes is -1, needs at least 0
  tessera_sr.recompute_hint {budget_bytes = -1 : i64}
  return
}

// -----
func.func @f() {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0609] tessera_sr.all_gather: needs at least one operand
  %0 = tessera_sr.all_gather {axis = "data"} : () -> tensor<4xf32>
  return
}

// -----
func.func @f(%a: tensor<?xf32>) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0609] tessera_sr.all_gather: operands must be static tensors
  %0 = tessera_sr.all_gather %a {axis = "data"} : (tensor<?xf32>) -> tensor<4xf32>
  return
}

// -----
func.func @f(%a: tensor<2xf32>, %b: tensor<2xf64>) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0609] tessera_sr.all_gather: operands differ in element type
  %0 = tessera_sr.all_gather %a, %b {axis = "data"} : (tensor<2xf32>, tensor<2xf64>) -> tensor<4xf32>
  return
}

// -----
func.func @f(%a: tensor<2x2xf32>) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0609] tessera_sr.all_gather: slices must have one dimension
  %0 = tessera_sr.all_gather %a {axis = "data"} : (tensor<2x2xf32>) -> tensor<4xf32>
  return
}

// -----
func.func @f(%a: tensor<9000000000000000000xf32>, %b: tensor<9000000000000000000xf32>) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0609] tessera_sr.all_gather: operands have too many elements
  %0 = tessera_sr.all_gather %a, %b, %a {axis = "data"} : (tensor<9000000000000000000xf32>, tensor<9000000000000000000xf32>, tensor<9000000000000000000xf32>) -> tensor<4xf32>
  return
}

// -----
func.func @f(%a: tensor<4xf32>) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0609] tessera_sr.all_reduce: the result's type differs from the operands'
  %0 = tessera_sr.all_reduce %a {axis = "data"} : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----
func.func @f(%a: tensor<4xf32>) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0609] tessera_sr.broadcast: needs one operand
  %0 = tessera_sr.broadcast %a, %a {axis = "data"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
func.func @f(%a: tensor<4xf32>) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0609] tessera_sr.reduce_scatter: [2, 1) at position 0 is not a range of 4 elements
  %0 = tessera_sr.reduce_scatter %a {axis = "data", begin = 2 : i64, end = 1 : i64, position = 0 : i64} : (tensor<4xf32>) -> tensor<1xf32>
  return
}

// -----
func.func @f(%a: tensor<4xf32>) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0609] tessera_sr.reduce_scatter: the result does not hold the elements of its range
  %0 = tessera_sr.reduce_scatter %a {axis = "data", begin = 0 : i64, end = 2 : i64, position = 0 : i64} : (tensor<4xf32>) -> tensor<1xf32>
  return
}

// -----
func.func @f(%a: tensor<4xf32>) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0609] tessera_sr.shard_slice: needs one operand
  %0 = tessera_sr.shard_slice %a, %a {axis = "data", begin = 0 : i64, end = 2 : i64, position = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // CHECK: error: [TSR-0609] tessera_sr.vrank_all_to_all: the result's type differs from the type that a virtual rank has
  %0 = tessera_sr.vrank_all_to_all %x : tensor<4x3xf32> -> tensor<2x3xf32>
  return
}
