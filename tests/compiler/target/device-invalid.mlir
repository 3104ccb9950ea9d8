// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt -split-input-file --no-output %s 2>&1 | FileCheck %s

// CHECK: [[@LINE+1]]:1: error: [TSR-0508] tessera_target.kernel: there is no feature 'sm_9000'
tessera_target.kernel @k : () -> memref<4xf32> grid 1 requires = "sm_9000"

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.kernel: threads is 2048; expected 1 to 1024
tessera_target.kernel @k : () -> memref<4xf32> grid 1 {threads = 2048 : i64}

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0504] tessera_target.kernel: threads is 48; expected a multiple of 32
tessera_target.kernel @k : () -> memref<4xf32> grid 1 {threads = 48 : i64}

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.kernel: registers is 256; expected 16 to 255
tessera_target.kernel @k : () -> memref<4xf32> grid 1 requires = "sm_80" {registers = 256 : i64}

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.kernel: shared_bytes is 166913; expected 0 to 166912
tessera_target.kernel @k : () -> memref<4xf32> grid 1 requires = "sm_80" {shared_bytes = 166913 : i64}

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.kernel: cluster is 2; expected 1 to 1
tessera_target.kernel @k : () -> memref<4xf32> grid 1 requires = "sm_80" {cluster = 2 : i64}

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0504] tessera_target.kernel: 1024 threads of 128 registers; a processor has 65536
tessera_target.kernel @k : () -> memref<4xf32> grid 1 requires = "sm_80" {threads = 1024 : i64, registers = 128 : i64}

// -----
tessera_target.func @f workspace 64 {
  %a = tessera_target.alloc offset 0 : memref<4xf32>
  %b = tessera_target.alloc offset 0 : memref<8xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0505] tessera_target.collective: the types do not fit "all_gather" of 4 ranks
  tessera_target.collective "all_gather" %b, %a over "dp" ranks 4 : memref<8xf32>, memref<4xf32>
}

// -----
tessera_target.func @f workspace 64 {
  %a = tessera_target.alloc offset 0 : memref<4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0505] tessera_target.collective: there is no collective "gossip"
  tessera_target.collective "gossip" %a, %a over "dp" ranks 4 : memref<4xf32>, memref<4xf32>
}

// -----
tessera_target.func @f workspace 64 {
  %a = tessera_target.alloc offset 0 : memref<4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0505] tessera_target.collective: ranks is 0; expected 1 to 65535
  tessera_target.collective "all_reduce" %a, %a over "dp" ranks 0 : memref<4xf32>, memref<4xf32>
}

// -----
tessera_target.func @f workspace 64 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0506] tessera_target.export: its token is awaited 0 times; expected once
  %t = tessera_target.export "step"
}

// -----
tessera_target.func @f workspace 64 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0506] tessera_target.import: the token's name is empty
  %t = tessera_target.import ""
  tessera_target.await %t
}

// -----
func.func @f(%x: f32) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0507] tessera_target.ptx_instr: does not end in ';'
  %0 = tessera_target.ptx_instr "ex2.approx.f32 $0, $1", "=f,f"(%x) : (f32) -> f32
  return
}

// -----
func.func @f(%x: f32) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0507] tessera_target.ptx_instr: 1 constraints for 2 results and inputs
  %0 = tessera_target.ptx_instr "ex2.approx.f32 $0, $1;", "=f"(%x) : (f32) -> f32
  return
}

// -----
func.func @f(%x: f32) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0507] tessera_target.ptx_instr: constraint 1, 'r', does not fit its type
  %0 = tessera_target.ptx_instr "ex2.approx.f32 $0, $1;", "=f,r"(%x) : (f32) -> f32
  return
}

// -----
func.func @f(%x: f32) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0507] tessera_target.hip_instr: '$2' refers to none of 2 results and inputs
  %0 = tessera_target.hip_instr "v_exp_f32 $0, $2", "=v,v"(%x) : (f32) -> f32
  return
}

// -----
func.func @f(%x: i64) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0508] tessera_target.ptx_instr: wgmma. needs 'sm_90a'; required is 'sm_90'
  tessera_target.ptx_instr "wgmma.fence.sync.aligned;", "l"(%x) requires = "sm_90" : (i64) -> ()
  return
}

// -----
func.func @f(%x: i64) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0508] tessera_target.ptx_instr: tcgen05. needs 'sm_100a'; required is ''
  tessera_target.ptx_instr "tcgen05.fence::before_thread_sync;", "l"(%x) : (i64) -> ()
  return
}

// -----
func.func @f(%x: f32) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0508] tessera_target.hip_instr: v_wmma_ needs 'gfx1100'; required is 'gfx942'
  %0 = tessera_target.hip_instr "v_wmma_f32_16x16x16_f16 $0, $1, $1, $1", "=v,v"(%x) requires = "gfx942" : (f32) -> f32
  return
}

// -----
func.func @f(%g: memref<64xf32, 1>, %i: index) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0510] tessera_target.load: align is 2; expected a power of two from 4 to 128
  %0 = tessera_target.load %g[%i] align 2 : memref<64xf32, 1> -> f32
  return
}

// -----
func.func @f(%g: memref<64xf32, 4>, %i: index, %x: f32) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0509] tessera_target.store: constant memory is not written
  tessera_target.store %x, %g[%i] align 4 : f32, memref<64xf32, 4>
  return
}

// -----
func.func @f(%g: memref<64xf32, 7>, %i: index) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0509] tessera_target.load: there is no memory space 7; expected 0, 1, 3, 4 or 5
  %0 = tessera_target.load %g[%i] align 4 : memref<64xf32, 7> -> f32
  return
}

// -----
func.func @f(%s: memref<64xf32, 3>, %g: memref<64xf32, 1>, %i: index) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0510] tessera_target.async_copy: copies 12 bytes; expected 4, 8 or 16
  %t = tessera_target.async_copy %s[%i], %g[%i] bytes 12 requires = "sm_80" : memref<64xf32, 3>, memref<64xf32, 1>
  return
}

// -----
func.func @f(%s: memref<64xf32, 3>, %i: index) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0509] tessera_target.async_copy: copies from space 3 to 3; expected from 1 (global) to 3 (shared)
  %t = tessera_target.async_copy %s[%i], %s[%i] bytes 4 requires = "sm_80" : memref<64xf32, 3>, memref<64xf32, 3>
  return
}

// -----
func.func @f(%s: memref<64xf32, 3>, %g: memref<64xf32, 1>, %i: index) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0508] tessera_target.async_copy: 'gfx942' has no asynchronous copies
  %t = tessera_target.async_copy %s[%i], %g[%i] bytes 4 requires = "gfx942" : memref<64xf32, 3>, memref<64xf32, 1>
  tessera_target.await %t
  return
}

// -----
tile.func @f(%x: memref<4xf32>) grid 1 {
  %i = tile.program_id
  %v = tile.load %x[%i] : memref<4xf32> -> f32
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0508] tessera_target.ptx_instr: 'gfx90a' belongs to another manufacturer
  %d = tessera_target.ptx_instr "abs.f32 $0, $1;", "=f,f"(%v) requires = "gfx90a" : (f32) -> f32
  tile.return
}

// -----
tile.func @f(%x: memref<4xf32>) grid 1 {
  %i = tile.program_id
  %v = tile.load %x[%i] : memref<4xf32> -> f32
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0507] tessera_target.ptx_instr: constraint 0: results come first, with '='
  %d = tessera_target.ptx_instr "abs.f32 $0, $1;", "f,=f"(%v) requires = "sm_80" : (f32) -> f32
  tile.return
}

// -----
tile.func @f(%x: memref<4xf32>) grid 1 {
  %i = tile.program_id
  %v = tile.load %x[%i] : memref<4xf32> -> f32
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0507] tessera_target.ptx_instr: constraint 1 shares the register of no result of its type
  %d = tessera_target.ptx_instr "abs.f32 $0, $1;", "=f,1"(%v) requires = "sm_80" : (f32) -> f32
  tile.return
}

// -----
tile.func @f(%x: memref<4xf32>) grid 1 {
  %i = tile.program_id
  %v = tile.load %x[%i] : memref<4xf32> -> f32
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0507] tessera_target.ptx_instr: holds no instruction
  %d = tessera_target.ptx_instr "", "=f,f"(%v) requires = "sm_80" : (f32) -> f32
  tile.return
}

// -----
tile.func @f(%x: memref<4xf32>) grid 1 {
  %i = tile.program_id
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0509] tessera_target.load: the buffer holds elements of another type
  %v = tessera_target.load %x[%i] align 4 : memref<4xf32> -> i32
  tile.return
}
