// SPDX-License-Identifier: Apache-2.0
// What 128 keys give to the gradients of attention: one thread copies, two add to the queries' gradient when it is their turn, two warp groups compute.
// RUN: tile-code cuda:sm_90a text %s %t && FileCheck %s --input-file=%t
// A step, the last one and what follows: five products a step, of which the scores of the next one are left out in the last, and the one that runs a step behind.
// RUN: grep -o 'm64n[0-9]*k16' %t | sort | uniq -c | FileCheck %s --check-prefix=PRODUCTS
// PRODUCTS: 16 m64n128k16
// PRODUCTS: 56 m64n64k16
// Not causal: tiles begin at queries of their own and go round, so that no mask is needed.
// RUN: sed 's/causal, //' %s > %t.all && tile-code cuda:sm_90a text %t.all %t && FileCheck %s --check-prefix=ALL --input-file=%t
// ALL-NOT: 0fFF800000

// CHECK: .maxntid 384, 1, 1
// CHECK-COUNT-20: mbarrier.init.shared.b64
// CHECK: setmaxnreg.dec.sync.aligned.u32 24
// The writers: what others add, the turn of the next; before it the own turn, the first store.
// CHECK: cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group
// CHECK: cp.async.bulk.wait_group 0
// CHECK: st.release.gpu.global.b32
// CHECK: ld.acquire.gpu.global.b32
// CHECK: cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group
// CHECK: setmaxnreg.inc.sync.aligned.u32 240
// The first scores begin with a number of each query.
// CHECK: ld.shared.v2.f32
// CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// CHECK-SAME: da, db, 1, 1, 1, 0, 0;
// A step: gradients of weights, weights, their product with the result's gradient.
// CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// CHECK: ex2.approx.ftz.f32
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// CHECK-SAME: db, 1, 1, 1, 1;
// CHECK: wgmma.wait_group.sync.aligned 1
// CHECK: stmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: fence.proxy.async.shared::cta
// CHECK: wgmma.wait_group.sync.aligned 0
// The queries' gradient, transposed: both factors are strided along K.
// CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// CHECK-SAME: da, db, 0, 1, 1, 1, 1;
// CHECK: wgmma.wait_group.sync.aligned 2
// CHECK: st.shared.f32
// CHECK: wgmma.wait_group.sync.aligned 0
// Keys behind a query.
// CHECK: 0fFF800000
// The copies: keys, then queries and a row of numbers.
// CHECK: cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes
// CHECK: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
tile.func @gradient(%q: memref<4x512x128xbf16>, %k: memref<2x512x128xbf16>, %v: memref<2x512x128xbf16>, %g: memref<4x512x128xbf16>,
                    %l: memref<4x512xf32>, %t: memref<4x512xf32>, %n: memref<4x8xi32>, %s: memref<4x512x128xf32>,
                    %dk: memref<2x512x128xbf16>, %dv: memref<2x512x128xbf16>) grid 8 warps 8 attributes {outputs = 3 : i64} {
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %4 = arith.constant 4 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %group = arith.divui %p, %4 : index
  %i = arith.remui %p, %4 : index
  %tile = arith.subi %3, %i : index
  %head = arith.muli %group, %2 : index
  %row = arith.muli %tile, %128 : index
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rv = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rg = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rs = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xf32>
  %rr = tile.alloc_shared swizzle = "none" : !tile.shared<2x2x64xf32>
  tile.attend "backward"(%q, %k, %v, %g, %l, %t, %n, %s, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {causal, scale = 0.125 : f64}
      : (memref<4x512x128xbf16>, memref<2x512x128xbf16>, memref<2x512x128xbf16>, memref<4x512x128xbf16>, memref<4x512xf32>, memref<4x512xf32>, memref<4x8xi32>, memref<4x512x128xf32>, memref<2x512x128xbf16>, memref<2x512x128xbf16>),
        (!tile.shared<1x128x128xbf16>, !tile.shared<1x128x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x128x64xbf16>, !tile.shared<2x64x128xf32>, !tile.shared<2x2x64xf32>)
  tile.return
}
