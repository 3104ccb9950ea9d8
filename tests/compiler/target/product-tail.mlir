// SPDX-License-Identifier: Apache-2.0
// In the last rounds of a loop of products warp groups go one after the other: the second one waits, the first one lets it go. It stores
// meanwhile: a box leaves before the next one is computed.
// RUN: tile-code cuda:sm_90a text %s %t && FileCheck %s --input-file=%t
// A tail that is as long as there are stages, or half of the rounds and more, would wait for itself: there is none.
// RUN: sed 's/tile.tail = 2/tile.tail = 3/' %s >%t.mlir && tile-code cuda:sm_90a text %t.mlir %t && FileCheck %s --check-prefix=NONE --input-file=%t
// RUN: sed 's/%%k = %%0 to %%8 /%%k = %%0 to %%4 /' %s >%t.mlir && tile-code cuda:sm_90a text %t.mlir %t && FileCheck %s --check-prefix=NONE --input-file=%t
// RUN: sed 's/tile.tail = 2/tile.tail = -9223372036854775808/' %s >%t.mlir && tile-code cuda:sm_90a text %t.mlir %t && FileCheck %s --check-prefix=NONE --input-file=%t
// Other units know no warp groups.
// RUN: tile-code cuda:sm_80 text %s %t && FileCheck %s --check-prefix=AMPERE --input-file=%t

// CHECK: setmaxnreg.inc
// CHECK: wgmma.mma_async
// CHECK: wgmma.wait_group.sync.aligned 1
// CHECK: bar.sync {{.*}}, %r{{[0-9]+}};
// CHECK: wgmma.mma_async
// CHECK: wgmma.wait_group.sync.aligned 1
// CHECK: bar.arrive
// CHECK: wgmma.wait_group.sync.aligned 0
// CHECK-COUNT-32: tanh.approx.f32
// CHECK-NOT: tanh.approx.f32
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta.bulk_group
// CHECK-COUNT-32: tanh.approx.f32
// CHECK-NOT: tanh.approx.f32
// NONE: wgmma.wait_group.sync.aligned 1
// NONE-NOT: bar.arrive
// NONE-NOT: wgmma.wait_group.sync.aligned 1
// AMPERE: mma.sync
// AMPERE-NOT: bar.arrive
tile.func @product(%a: memref<512x512xbf16>, %b: memref<512x512xbf16>, %c: memref<512x512xbf16>) grid 16 warps 8 {
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
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %none = tile.fill %z : f32 -> !tile.fragment<128x128xf32, acc>
  %sum = scf.for %k = %0 to %8 step %1 iter_args(%s = %none) -> (!tile.fragment<128x128xf32, acc>) {
    %kk = arith.muli %k, %64 : index
    tile.async_copy %a[%m, %kk], %ra stage %k : memref<512x512xbf16>, !tile.shared<3x128x64xbf16>
    tile.async_copy %b[%kk, %n], %rb stage %k : memref<512x512xbf16>, !tile.shared<3x64x128xbf16>
    tile.wait_async stage %k
    %t = tile.mma %ra, %rb, %s stage %k : !tile.shared<3x128x64xbf16>, !tile.shared<3x64x128xbf16>, !tile.fragment<128x128xf32, acc>
    tile.release stage %k
    scf.yield %t : !tile.fragment<128x128xf32, acc>
  } {tile.tail = 2 : i64}
  %f = tile.map %sum at[%m, %n] : !tile.fragment<128x128xf32, acc> {
  ^bb0(%row: vector<64xindex>, %column: vector<64xindex>, %x: vector<64xf32>):
    %t = math.tanh %x {tile.approximate} : vector<64xf32>
    %y = arith.mulf %x, %t : vector<64xf32>
    tile.yield %y : vector<64xf32>
  }
  tile.store_fragment %f, %c[%m, %n] through %rc : !tile.fragment<128x128xf32, acc>, memref<512x512xbf16>, !tile.shared<2x128x64xbf16>
  tile.return
}
