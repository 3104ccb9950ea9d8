// SPDX-License-Identifier: Apache-2.0
// Gradients of attention with mma.sync, of keys: what comes by are queries, their gradients and two numbers of each; P^T and dS^T are first factors as they lie in registers.
// RUN: tile-code cuda:sm_80 text %s %t && FileCheck %s --input-file=%t
// Steps with masks and those without: S, C, dV and dK, of two row blocks each 4 column blocks by 4 steps, or 8 by 2.
// RUN: grep -c mma.sync %t | FileCheck %s --check-prefix=KEYS
// RUN: sed 's/causal, //' %s > %t.all && tile-code cuda:sm_80 text %t.all %t && grep -c mma.sync %t | FileCheck %s --check-prefix=ALL
// Weights that fall are negative: 0 in the first factor.
// RUN: sed 's/causal, /dropout = 0.1 : f64, stream = 77 : i64, /; s/\(%dk, %dv\))/\1, %fh, %e, %d)/; s/, memref<2x256x64xbf16>),/, memref<2x256x64xbf16>, memref<1xi64>, memref<i64>, memref<i64>),/; s/%dk: memref/%fh: memref<1xi64>, %e: memref<i64>, %d: memref<i64>, %dk: memref/' %s > %t.drop
// RUN: tile-code cuda:sm_80 text %t.drop %t && FileCheck %s --check-prefix=DROP --input-file=%t
// Halves of the warps: P goes by shared memory; what makes it, and its sum, stand in both loops, the other two products in one.
// RUN: sed -e 's/warps 4/warps 8/; s/\(%rg, %rr\))/\1, %rp)/; s/\(3x2x32xf32>\))/\1, !tile.shared<2x128x32xf32>)/' -e '/^  %rr = /a %rp = tile.alloc_shared swizzle = "none" : !tile.shared<2x128x32xf32>' %s > %t.halves
// RUN: tile-code cuda:sm_80 text %t.halves %t && FileCheck %s --check-prefix=HALVES --input-file=%t && grep -c mma.sync %t | FileCheck %s --check-prefix=THREE
// HALVES: .maxntid 256, 1, 1
// HALVES-DAG: st.shared.v4.f32
// HALVES-DAG: ld.shared.v4.f32
// THREE: {{^192$}}
// KEYS: {{^256$}}
// ALL: {{^128$}}
// DROP-DAG: mul.wide.u32 t
// DROP-DAG: shfl.sync.bfly.b32
// DROP-DAG: setp.lt.f32
// DROP-DAG: cvt.rn.relu.bf16x2.f32

// CHECK: .maxntid 128, 1, 1
// CHECK-NOT: mbarrier
// CHECK: cp.async.cg.shared.global.L2::128B [%r{{[0-9]+}}+0], [%rd{{[0-9]+}}+0], 16;
// CHECK: @p cp.async.cg.shared.global [
// CHECK: cp.async.commit_group;
// CHECK: cp.async.wait_group 1;
// CHECK: bar.sync
// CHECK: mma.sync
// CHECK: ld.shared.v2.f32
// CHECK: setp.lt.s32
// CHECK: ex2.approx.ftz.f32
// CHECK: cvt.rn.bf16x2.f32
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK: mma.sync
// Both gradients, by the rows of keys and values.
// CHECK: st.shared.b32
// CHECK: st.global.v4.b32
// CHECK: st.shared.b32
// CHECK: st.global.v4.b32
tile.func @gradient(%q: memref<4x256x64xbf16>, %k: memref<2x256x64xbf16>, %v: memref<2x256x64xbf16>, %g: memref<4x256x64xbf16>, %l: memref<4x256xf32>,
                    %t: memref<4x256xf32>, %dk: memref<2x256x64xbf16>, %dv: memref<2x256x64xbf16>) grid 4 warps 4 attributes {outputs = 2 : i64} {
  %2 = arith.constant 2 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %n = arith.divui %p, %2 : index
  %m = arith.remui %p, %2 : index
  %h = arith.muli %n, %2 : index
  %r = arith.muli %m, %128 : index
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %rv = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<3x32x64xbf16>
  %rg = tile.alloc_shared swizzle = "xor" : !tile.shared<3x32x64xbf16>
  %rr = tile.alloc_shared swizzle = "none" : !tile.shared<3x2x32xf32>
  tile.attend "backward_keys"(%q, %k, %v, %g, %l, %t, %dk, %dv) at [%h, %n, %r] through (%rk, %rv, %rq, %rg, %rr) {causal, scale = 0.125 : f64}
      : (memref<4x256x64xbf16>, memref<2x256x64xbf16>, memref<2x256x64xbf16>, memref<4x256x64xbf16>, memref<4x256xf32>, memref<4x256xf32>, memref<2x256x64xbf16>, memref<2x256x64xbf16>),
        (!tile.shared<1x128x64xbf16>, !tile.shared<1x128x64xbf16>, !tile.shared<3x32x64xbf16>, !tile.shared<3x32x64xbf16>, !tile.shared<3x2x32xf32>)
  tile.return
}
