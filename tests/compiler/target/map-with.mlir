// SPDX-License-Identifier: Apache-2.0
// tile.map of two fragments that were both computed: its result stored by the copy engine, stored directly, and used further.
// RUN: tile-code cuda:sm_90a text %s %t.90 && FileCheck %s --input-file=%t.90
// RUN: tile-code cuda:sm_80 text %s %t.80 && FileCheck %s --input-file=%t.80

// CHECK-LABEL: .entry direct(
// CHECK-COUNT-64: div.rn.f32
// CHECK-NOT: div.rn
tile.func @direct(%a: memref<512x512xbf16>, %b: memref<512x512xbf16>, %c: memref<512x512xf32>) grid 16 warps 8 {
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
  %none = tile.fill %z : f32 -> !tile.fragment<128x128xf32, acc>
  %sum = scf.for %k = %0 to %8 step %1 iter_args(%s = %none) -> (!tile.fragment<128x128xf32, acc>) {
    %kk = arith.muli %k, %64 : index
    tile.async_copy %a[%m, %kk], %ra stage %k : memref<512x512xbf16>, !tile.shared<3x128x64xbf16>
    tile.async_copy %b[%kk, %n], %rb stage %k : memref<512x512xbf16>, !tile.shared<3x64x128xbf16>
    tile.wait_async stage %k
    %t = tile.mma %ra, %rb, %s stage %k : !tile.shared<3x128x64xbf16>, !tile.shared<3x64x128xbf16>, !tile.fragment<128x128xf32, acc>
    tile.release stage %k
    scf.yield %t : !tile.fragment<128x128xf32, acc>
  }
  %h = tile.map %sum at [%m, %n] : !tile.fragment<128x128xf32, acc> {
  ^bb0(%u: vector<64xindex>, %v: vector<64xindex>, %e: vector<64xf32>):
    %w = arith.mulf %e, %e : vector<64xf32>
    tile.yield %w : vector<64xf32>
  }
  %y = tile.map %sum at [%m, %n] with %h : !tile.fragment<128x128xf32, acc>, !tile.fragment<128x128xf32, acc> {
  ^bb0(%u: vector<64xindex>, %v: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    %w = arith.divf %e, %o : vector<64xf32>
    tile.yield %w : vector<64xf32>
  }
  tile.store_fragment %y, %c[%m, %n] : !tile.fragment<128x128xf32, acc>, memref<512x512xf32>
  tile.return
}

// CHECK-LABEL: .entry through(
// CHECK-COUNT-64: div.rn.f32
// CHECK-NOT: div.rn
tile.func @through(%a: memref<512x512xbf16>, %b: memref<512x512xbf16>, %c: memref<512x512xf32>) grid 16 warps 8 {
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
  %sum = scf.for %k = %0 to %8 step %1 iter_args(%s = %none) -> (!tile.fragment<128x128xf32, acc>) {
    %kk = arith.muli %k, %64 : index
    tile.async_copy %a[%m, %kk], %ra stage %k : memref<512x512xbf16>, !tile.shared<3x128x64xbf16>
    tile.async_copy %b[%kk, %n], %rb stage %k : memref<512x512xbf16>, !tile.shared<3x64x128xbf16>
    tile.wait_async stage %k
    %t = tile.mma %ra, %rb, %s stage %k : !tile.shared<3x128x64xbf16>, !tile.shared<3x64x128xbf16>, !tile.fragment<128x128xf32, acc>
    tile.release stage %k
    scf.yield %t : !tile.fragment<128x128xf32, acc>
  }
  %h = tile.map %sum at [%m, %n] : !tile.fragment<128x128xf32, acc> {
  ^bb0(%u: vector<64xindex>, %v: vector<64xindex>, %e: vector<64xf32>):
    %w = arith.mulf %e, %e : vector<64xf32>
    tile.yield %w : vector<64xf32>
  }
  %y = tile.map %sum at [%m, %n] with %h : !tile.fragment<128x128xf32, acc>, !tile.fragment<128x128xf32, acc> {
  ^bb0(%u: vector<64xindex>, %v: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    %w = arith.divf %e, %o : vector<64xf32>
    tile.yield %w : vector<64xf32>
  }
  tile.store_fragment %y, %c[%m, %n] through %rc : !tile.fragment<128x128xf32, acc>, memref<512x512xf32>, !tile.shared<2x128x32xf32>
  tile.return
}

// CHECK-LABEL: .entry further(
// CHECK-COUNT-64: div.rn.f32
// CHECK-NOT: div.rn
tile.func @further(%a: memref<512x512xbf16>, %b: memref<512x512xbf16>, %c: memref<512x512xf32>) grid 16 warps 8 {
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
  %none = tile.fill %z : f32 -> !tile.fragment<128x128xf32, acc>
  %sum = scf.for %k = %0 to %8 step %1 iter_args(%s = %none) -> (!tile.fragment<128x128xf32, acc>) {
    %kk = arith.muli %k, %64 : index
    tile.async_copy %a[%m, %kk], %ra stage %k : memref<512x512xbf16>, !tile.shared<3x128x64xbf16>
    tile.async_copy %b[%kk, %n], %rb stage %k : memref<512x512xbf16>, !tile.shared<3x64x128xbf16>
    tile.wait_async stage %k
    %t = tile.mma %ra, %rb, %s stage %k : !tile.shared<3x128x64xbf16>, !tile.shared<3x64x128xbf16>, !tile.fragment<128x128xf32, acc>
    tile.release stage %k
    scf.yield %t : !tile.fragment<128x128xf32, acc>
  }
  %h = tile.map %sum at [%m, %n] : !tile.fragment<128x128xf32, acc> {
  ^bb0(%u: vector<64xindex>, %v: vector<64xindex>, %e: vector<64xf32>):
    %w = arith.mulf %e, %e : vector<64xf32>
    tile.yield %w : vector<64xf32>
  }
  %y = tile.map %sum at [%m, %n] with %h : !tile.fragment<128x128xf32, acc>, !tile.fragment<128x128xf32, acc> {
  ^bb0(%u: vector<64xindex>, %v: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    %w = arith.divf %e, %o : vector<64xf32>
    tile.yield %w : vector<64xf32>
  }
  %q = tile.map %h at [%m, %n] with %y : !tile.fragment<128x128xf32, acc>, !tile.fragment<128x128xf32, acc> {
  ^bb0(%u: vector<64xindex>, %v: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    %w = arith.subf %e, %o : vector<64xf32>
    tile.yield %w : vector<64xf32>
  }
  tile.store_fragment %q, %c[%m, %n] : !tile.fragment<128x128xf32, acc>, memref<512x512xf32>
  tile.return
}
