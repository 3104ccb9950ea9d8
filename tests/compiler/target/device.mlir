// SPDX-License-Identifier: Apache-2.0
// Kernels of GPUs, exchange, tokens, instructions and memory in Target IR, pretty and generic.
// RUN: tessera-opt %s | tessera-opt | FileCheck %s
// RUN: tessera-opt -mlir-print-op-generic %s | tessera-opt | FileCheck %s

// CHECK: tessera_target.kernel @k0 : (memref<64xf32>) -> memref<64xf32> grid 4 requires = "sm_90a"
// CHECK-SAME: {cluster = 2 : i64, registers = 168 : i64, shared_bytes = 232448 : i64, threads = 384 : i64}
tessera_target.kernel @k0 : (memref<64xf32>) -> memref<64xf32> grid 4 requires = "sm_90a"
    {cluster = 2 : i64, registers = 168 : i64, shared_bytes = 232448 : i64, threads = 384 : i64}

// CHECK: tessera_target.func @train workspace 256 {
tessera_target.func @train workspace 256 {
  %a = tessera_target.alloc offset 0 : memref<4xf32>
  %b = tessera_target.alloc offset 64 : memref<16xf32>
  %c = tessera_target.alloc offset 128 : memref<4x1xf32>
  %own = tessera_target.vrank_alloc offset 0 : memref<4xf32>
  %part = tessera_target.vrank_alloc offset 64 : memref<1xf32>
  %swapped = tessera_target.vrank_alloc offset 128 : memref<4xf32>
  %sum = tessera_target.sum_alloc offset 0 : memref<4xf32>
  %odd = tessera_target.sum_alloc offset 64 : memref<3x1xf32>
  // CHECK: tessera_target.collective "all_gather" %{{.*}}, %{{.*}} over "dp" ranks 4 {algo = "ring"} : memref<16xf32>, memref<4xf32>
  tessera_target.collective "all_gather" %b, %own over "dp" ranks 4 {algo = "ring"} : memref<16xf32>, memref<4xf32>
  // CHECK: tessera_target.collective "all_gather" %{{.*}}, %{{.*}} over "dp" ranks 4 : memref<4x1xf32>, memref<1xf32>
  tessera_target.collective "all_gather" %c, %part over "dp" ranks 4 : memref<4x1xf32>, memref<1xf32>
  // CHECK: tessera_target.collective "all_reduce" %{{.*}}, %{{.*}} over "dp" ranks 4 : memref<4xf32>, memref<4xf32>
  tessera_target.collective "all_reduce" %a, %sum over "dp" ranks 4 : memref<4xf32>, memref<4xf32>
  // CHECK: tessera_target.collective "reduce_scatter" %{{.*}}, %{{.*}} over "dp" ranks 4 : memref<1xf32>, memref<3x1xf32>
  tessera_target.collective "reduce_scatter" %part, %odd over "dp" ranks 4 : memref<1xf32>, memref<3x1xf32>
  // CHECK: tessera_target.collective "broadcast" %{{.*}}, %{{.*}} over "dp" ranks 4 : memref<4xf32>, memref<4xf32>
  tessera_target.collective "broadcast" %a, %own over "dp" ranks 4 : memref<4xf32>, memref<4xf32>
  // CHECK: tessera_target.collective "all_to_all" %{{.*}}, %{{.*}} over "dp" ranks 4 : memref<4xf32>, memref<4xf32>
  tessera_target.collective "all_to_all" %swapped, %own over "dp" ranks 4 : memref<4xf32>, memref<4xf32>
  // One position has it all: any buffers.
  // CHECK: tessera_target.collective "reduce_scatter" %{{.*}}, %{{.*}} over "tp" ranks 1 : memref<4xf32>, memref<4xf32>
  tessera_target.collective "reduce_scatter" %a, %own over "tp" ranks 1 : memref<4xf32>, memref<4xf32>
  // CHECK: %[[I:.*]] = tessera_target.import "step"{{$}}
  %i = tessera_target.import "step"
  // CHECK: %[[E:.*]] = tessera_target.export "step" after(%[[I]])
  %e = tessera_target.export "step" after(%i)
  // CHECK: tessera_target.await %[[I]], %[[E]]
  tessera_target.await %i, %e
}

func.func private @body(%s: memref<64xf32, 3>, %g: memref<64xf32, 1>, %i: index, %x: f32) {
  // CHECK: tessera_target.ptx_instr "ex2.approx.f32 $0, $1;", "=f,f"(%{{.*}}) requires = "sm_80" : (f32) -> f32
  %0 = tessera_target.ptx_instr "ex2.approx.f32 $0, $1;", "=f,f"(%x) requires = "sm_80" : (f32) -> f32
  // CHECK: tessera_target.ptx_instr "cp.async.wait_all;", ""() requires = "sm_90" : () -> ()
  tessera_target.ptx_instr "cp.async.wait_all;", ""() requires = "sm_90" : () -> ()
  // CHECK: tessera_target.hip_instr "v_exp_f32 $0, $1", "=v,v"(%{{.*}}) requires = "gfx90a" : (f32) -> f32
  %1 = tessera_target.hip_instr "v_exp_f32 $0, $1", "=v,v"(%x) requires = "gfx90a" : (f32) -> f32
  // CHECK: tessera_target.load %{{.*}}[%{{.*}}] align 16 : memref<64xf32, 1> -> vector<4xf32>
  %2 = tessera_target.load %g[%i] align 16 : memref<64xf32, 1> -> vector<4xf32>
  // CHECK: tessera_target.store %{{.*}}, %{{.*}}[%{{.*}}] align 4 : f32, memref<64xf32, 3>
  tessera_target.store %x, %s[%i] align 4 : f32, memref<64xf32, 3>
  // CHECK: %[[T:.*]] = tessera_target.async_copy %{{.*}}[%{{.*}}], %{{.*}}[%{{.*}}] bytes 16 requires = "sm_80" : memref<64xf32, 3>, memref<64xf32, 1>
  %t = tessera_target.async_copy %s[%i], %g[%i] bytes 16 requires = "sm_80" : memref<64xf32, 3>, memref<64xf32, 1>
  // CHECK: tessera_target.await %[[T]]
  tessera_target.await %t
  return
}
