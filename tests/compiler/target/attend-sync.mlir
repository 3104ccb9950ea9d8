// SPDX-License-Identifier: Apache-2.0
// Attention of a tile with mma.sync: all threads copy and compute; a warp has 32 queries, whose weights are first factors of the second product as they lie in registers.
// RUN: tile-code cuda:sm_80 text %s %t && FileCheck %s --input-file=%t
// Blocks with masks and blocks without; those with masks are left out where there can be none: 2 x 16 products of 16 columns with 4 steps each, and as many behind them.
// RUN: grep -c mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 %t | FileCheck %s --check-prefix=BOTH
// RUN: sed 's/causal, //; s/x200x/x256x/g' %s > %t.whole && tile-code cuda:sm_80 text %t.whole %t && grep -c mma.sync %t | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/<1x128x64/<1x64x64/; s/constant 128/constant 64/' %s > %t.narrow && tile-code cuda:sm_80 text %t.narrow %t && grep -c mma.sync %t | FileCheck %s --check-prefix=WHOLE
// Threads meet before Q, and in both loops where keys are there, and values.
// RUN: tile-code cuda:sm_80 text %s %t && grep -c 'cp.async.wait_group 1' %t | FileCheck %s --check-prefix=MEET
// MEET: {{^5$}}
// BOTH: {{^256$}}
// WHOLE: {{^128$}}

// CHECK: .maxntid 128, 1, 1
// CHECK-NOT: mbarrier
// Queries that are not there are 0.
// CHECK: cp.async.cg.shared.global.L2::128B [%r{{[0-9]+}}+0], [%rd{{[0-9]+}}+0], 16, %r{{[0-9]+}};
// CHECK: cp.async.commit_group;
// CHECK: cp.async.commit_group;
// Q stays in registers.
// CHECK: cp.async.wait_group 1;
// CHECK-COUNT-8: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// Blocks with masks, then those without.
// CHECK: mma.sync
// CHECK: ex2.approx.ftz.f32
// CHECK: cvt.rn.bf16x2.f32
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK: mma.sync
// The result, by the rows of the queries.
// CHECK: lg2.approx.ftz.f32
// CHECK: st.global.f32
// CHECK: bar.warp.sync
// CHECK: st.shared.b32
// CHECK: bar.warp.sync
// CHECK: st.global.v4.b32
tile.func @attention(%q: memref<4x200x64xbf16>, %k: memref<2x200x64xbf16>, %v: memref<2x200x64xbf16>, %o: memref<4x200x64xbf16>,
                     %l: memref<4x200xf32>) grid 8 warps 4 attributes {outputs = 2 : i64} {
  %2 = arith.constant 2 : index
  %4 = arith.constant 4 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %h = arith.remui %p, %4 : index
  %t = arith.divui %p, %4 : index
  %g = arith.divui %h, %2 : index
  %r = arith.muli %t, %128 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<3x64x64xbf16>
  tile.attend "forward"(%q, %k, %v, %o, %l) at [%h, %g, %r] through (%rq, %rk) {causal, scale = 0.125 : f64}
      : (memref<4x200x64xbf16>, memref<2x200x64xbf16>, memref<2x200x64xbf16>, memref<4x200x64xbf16>, memref<4x200xf32>),
        (!tile.shared<1x128x64xbf16>, !tile.shared<3x64x64xbf16>)
  tile.return
}
