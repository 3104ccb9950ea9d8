// SPDX-License-Identifier: Apache-2.0
// Attention of a tile: one thread copies queries, keys and values; two warp groups begin the products of a block while those of the one before are under way.
// RUN: tile-code cuda:sm_90a text %s %t && FileCheck %s --input-file=%t
// The first block, blocks with masks, blocks without; those with masks are left out where no block but the first can have one.
// RUN: grep -c m64n128k16 %t | FileCheck %s --check-prefix=THREE
// RUN: sed 's/x200/x256/g' %s > %t.even && tile-code cuda:sm_90a text %t.even %t && grep -c m64n128k16 %t | FileCheck %s --check-prefix=TWO
// THREE: {{^3$}}
// TWO: {{^2$}}

// CHECK: .maxntid 384, 1, 1
// CHECK-COUNT-14: mbarrier.init.shared.b64
// CHECK: setmaxnreg.dec.sync.aligned.u32 40
// CHECK: cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes
// CHECK: setmaxnreg.inc.sync.aligned.u32 232
// CHECK: bar.arrive
// The first block.
// CHECK: bar.sync
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// CHECK-SAME: da, db, 0, 1, 1, 0, 0;
// CHECK-SAME: da, db, 1, 1, 1, 0, 0;
// CHECK: bar.arrive
// CHECK: wgmma.wait_group.sync.aligned 0
// CHECK: setp.lt.s32
// CHECK: ex2.approx.ftz.f32
// CHECK: cvt.rn.bf16x2.f32
// Others: two products begun, then their scores alone are waited for.
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// CHECK-SAME: db, 1, 1, 1, 1;
// CHECK: wgmma.wait_group.sync.aligned 1
// CHECK: ex2.approx.ftz.f32
// CHECK: wgmma.wait_group.sync.aligned 0
// The last values.
// CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// CHECK: lg2.approx.ftz.f32
// CHECK: st.global.f32
// CHECK: stmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: cp.async.bulk.tensor.3d.global.shared::cta.bulk_group
tile.func @attention(%q: memref<4x200x64xbf16>, %k: memref<2x200x64xbf16>, %v: memref<2x200x64xbf16>, %o: memref<4x200x64xbf16>,
                     %l: memref<4x200xf32>) grid 8 warps 8 attributes {outputs = 2 : i64} {
  %2 = arith.constant 2 : index
  %4 = arith.constant 4 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %h = arith.remui %p, %4 : index
  %t = arith.divui %p, %4 : index
  %g = arith.divui %h, %2 : index
  %r = arith.muli %t, %128 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  tile.attend "forward"(%q, %k, %v, %o, %l) at [%h, %g, %r] through (%rq, %rk, %ro) {causal, pingpong, scale = 0.125 : f64}
      : (memref<4x200x64xbf16>, memref<2x200x64xbf16>, memref<2x200x64xbf16>, memref<4x200x64xbf16>, memref<4x200xf32>),
        (!tile.shared<2x128x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x128x64xbf16>)
  tile.return
}
