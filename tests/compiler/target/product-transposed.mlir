// SPDX-License-Identifier: Apache-2.0
// A product whose columns are rows of the matrix units, of 80 rows: what is stored is transposed on its way. Eight blocks run together,
// and share their copies: of A two in a row, of B four in a column, by turns.
// RUN: tile-code cuda:sm_90a text %s %t && FileCheck %s --input-file=%t
// RUN: not tile-code cuda:sm_80 text %s %t 2>&1 | FileCheck %s --check-prefix=SM80
// RUN: sed 's/array<i64: 4, 2>/array<i64: 3, 2>/' %s >%t.mlir && not tile-code cuda:sm_90a text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=THREE
// RUN: sed 's/512x520xbf16/512x521xbf16/g' %s >%t.mlir && not tile-code cuda:sm_90a text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=ODD
// RUN: sed 's/ through %%rc//; s/memref<512x512xbf16>, !tile.shared<2x128x64xbf16>$/memref<512x512xbf16>/' %s >%t.mlir && not tile-code cuda:sm_90a text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: sed 's/tile.together = 8/tile.together = 1/; s/{tile.shared = array<i64: ., .>}//' %s >%t.mlir && not tile-code cuda:sm_80 text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=NONE
// Of 72 rows, whose last 8 are two matrices of the four that are transposed at a time; threads do not copy them.
// RUN: sed 's/80/72/g' %s >%t.mlir && tile-code cuda:sm_90a text %t.mlir %t && FileCheck %s --input-file=%t --check-prefix=EIGHTS
// RUN: sed -i 's/512x520xbf16/512x521xbf16/g' %t.mlir && not tile-code cuda:sm_90a text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=THREADS

// EIGHTS: wgmma.mma_async.sync.aligned.m64n72k16
// EIGHTS-COUNT-4: stmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// EIGHTS: cp.async.bulk.tensor.2d.global.shared::cta.bulk_group
// EIGHTS-NOT: stmatrix.sync.aligned.m8n8.x4
// EIGHTS: stmatrix.sync.aligned.m8n8.x2.trans.shared.b16
// THREADS: kernel 'transposed' copies 72 rows of 128 bytes by threads; expected a multiple of 16 rows and of 2048 bytes, or on 'sm_90a' buffers with rows of whole 16 bytes
// NONE: kernel 'transposed' stores transposed; expected a ring for it, and on 'sm_90a' rows of whole 16 bytes
// SM80: kernel 'transposed' runs 8 of 64 programs together; expected 1, or on 'sm_90a' a divisor of the programs up to 8
// THREE: kernel 'transposed' shares copies among 3 programs, 2 apart, of 8; expected parts of these, and rows of whole 16 bytes
// ODD: kernel 'transposed' shares copies among 2 programs, 1 apart, of 8, rows of odd size; expected parts of these, and rows of whole 16 bytes

// CHECK: .reqnctapercluster 8, 1, 1
// Five others release a stage, each with two warp groups.
// CHECK: mov.b32 %[[ARRIVALS:.*]], 10;
// CHECK: mbarrier.init.shared.b64 [{{.*}}], %[[ARRIVALS]]
// CHECK: barrier.cluster.wait
// CHECK: elect.sync
// CHECK-COUNT-3: .multicast::cluster
// CHECK: wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16
// CHECK-SAME: da, db, 1, 1, 1, 1, 0;
// CHECK: mapa.shared::cluster
// CHECK: stmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta.bulk_group
tile.func @transposed(%a: memref<512x520xbf16>, %b: memref<520x512xbf16>, %c: memref<512x512xbf16>) grid 64 warps 8 attributes {tile.together = 8 : i64} {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %4 = arith.constant 4 : index
  %8 = arith.constant 8 : index
  %9 = arith.constant 9 : index
  %64 = arith.constant 64 : index
  %80 = arith.constant 80 : index
  %128 = arith.constant 128 : index
  %z = arith.constant 0.0 : f32
  %p = tile.program_id
  %i = arith.divui %p, %4 : index
  %j = arith.remui %p, %4 : index
  %m = arith.muli %i, %80 : index
  %n = arith.muli %j, %128 : index
  %ra = tile.alloc_shared swizzle = "xor" : !tile.shared<3x80x64xbf16>
  %rb = tile.alloc_shared swizzle = "xor" : !tile.shared<3x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %none = tile.fill %z : f32 -> !tile.fragment<128x80xf32, acc>
  %sum = scf.for %k = %0 to %9 step %1 iter_args(%s = %none) -> (!tile.fragment<128x80xf32, acc>) {
    %kk = arith.muli %k, %64 : index
    tile.async_copy %a[%m, %kk], %ra stage %k {tile.shared = array<i64: 2, 1>} : memref<512x520xbf16>, !tile.shared<3x80x64xbf16>
    tile.async_copy %b[%kk, %n], %rb stage %k {tile.shared = array<i64: 4, 2>} : memref<520x512xbf16>, !tile.shared<3x64x128xbf16>
    tile.wait_async stage %k
    %t = tile.mma %rb, %ra, %s stage %k {transpose_a, transpose_b} : !tile.shared<3x64x128xbf16>, !tile.shared<3x80x64xbf16>, !tile.fragment<128x80xf32, acc>
    tile.release stage %k
    scf.yield %t : !tile.fragment<128x80xf32, acc>
  }
  tile.store_fragment %sum, %c[%m, %n] through %rc {transposed} : !tile.fragment<128x80xf32, acc>, memref<512x512xbf16>, !tile.shared<2x128x64xbf16>
  tile.return
}
