// SPDX-License-Identifier: Apache-2.0
// What a result is computed with comes by the copy engine, box by box, to the slots that the result leaves from; f32 leaves by them, too.
// RUN: tile-code cuda:sm_90a text %s %t && FileCheck %s --input-file=%t

// The first thread of a warp group asks for as many boxes as there are slots, when what left from them is read.
// CHECK: setmaxnreg.inc
// CHECK: cp.async.bulk.wait_group.read 0
// CHECK-COUNT-2: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
// CHECK-NOT: cp.async.bulk.tensor.2d.shared::cluster
// CHECK: wgmma.mma_async
// CHECK: wgmma.wait_group.sync.aligned 0
// Box 0: its slot is waited for, read and written; box 2 is asked for when it has left.
// CHECK: mbarrier.try_wait.parity.shared.b64
// CHECK-COUNT-8: ld.shared.v2.f32
// CHECK-COUNT-8: st.shared.v2.f32
// CHECK: fence.proxy.async.shared::cta
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta.bulk_group
// CHECK: cp.async.bulk.wait_group.read 0
// CHECK: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
// Box 1, then 3; behind 2 and 3 nothing is asked for.
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta.bulk_group
// CHECK: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta.bulk_group
// CHECK-NOT: cp.async.bulk.tensor.2d.shared::cluster
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta.bulk_group
// CHECK-NOT: cp.async.bulk.tensor.2d.shared::cluster
// CHECK-NOT: st.global
tile.func @fetched(%a: memref<512x512xbf16>, %b: memref<512x512xbf16>, %r: memref<512x512xf32>, %c: memref<512x512xf32>) grid 16 warps 8 {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %4 = arith.constant 4 : index
  %8 = arith.constant 8 : index
  %64 = arith.constant 64 : index
  %128 = arith.constant 128 : index
  %z = arith.constant 0.0 : f32
  %p = tile.program_id
  %i = arith.divui %p, %4 : index
  %j = arith.remui %p, %4 : index
  %m = arith.muli %i, %128 : index
  %n = arith.muli %j, %128 : index
  %ra = tile.alloc_shared swizzle = "xor" : !tile.shared<3x128x64xbf16>
  %rb = tile.alloc_shared swizzle = "xor" : !tile.shared<3x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x32xf32>
  %none = tile.fill %z : f32 -> !tile.fragment<128x128xf32, acc>
  %f = tile.load_fragment %r[%m, %n] through %rc : memref<512x512xf32>, !tile.shared<2x128x32xf32> -> !tile.fragment<128x128xf32, acc>
  %sum = scf.for %k = %0 to %8 step %1 iter_args(%s = %none) -> (!tile.fragment<128x128xf32, acc>) {
    %kk = arith.muli %k, %64 : index
    tile.async_copy %a[%m, %kk], %ra stage %k : memref<512x512xbf16>, !tile.shared<3x128x64xbf16>
    tile.async_copy %b[%kk, %n], %rb stage %k : memref<512x512xbf16>, !tile.shared<3x64x128xbf16>
    tile.wait_async stage %k
    %t = tile.mma %ra, %rb, %s stage %k : !tile.shared<3x128x64xbf16>, !tile.shared<3x64x128xbf16>, !tile.fragment<128x128xf32, acc>
    tile.release stage %k
    scf.yield %t : !tile.fragment<128x128xf32, acc>
  }
  %y = tile.map %sum at [%m, %n] with %f : !tile.fragment<128x128xf32, acc>, !tile.fragment<128x128xf32, acc> {
  ^bb0(%u: vector<64xindex>, %v: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    %w = arith.addf %e, %o : vector<64xf32>
    tile.yield %w : vector<64xf32>
  }
  tile.store_fragment %y, %c[%m, %n] through %rc : !tile.fragment<128x128xf32, acc>, memref<512x512xf32>, !tile.shared<2x128x32xf32>
  tile.return
}
