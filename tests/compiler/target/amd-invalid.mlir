// SPDX-License-Identifier: Apache-2.0
// Waves copy a step of a product ahead: the registers of the next step need a second stage.
// RUN: not tile-code hip:gfx90a code %s %t 2>&1 | FileCheck %s

// CHECK: tile-code: code generation for 'hip:gfx90a': kernel 'm' has rings of 1 stage; expected at least 2 on 'hip:gfx90a'
tile.func @m(%a: memref<64x64xbf16>, %b: memref<64x64xbf16>, %y: memref<64x64xf32>) grid 1 warps 4 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ra = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  %rb = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  %zero = arith.constant 0.0 : f32
  %f = tile.fill %zero : f32 -> !tile.fragment<64x64xf32, acc>
  %sum = scf.for %i = %c0 to %c1 step %c1 iter_args(%s = %f) -> (!tile.fragment<64x64xf32, acc>) {
    tile.async_copy %a[%c0, %c0], %ra stage %i : memref<64x64xbf16>, !tile.shared<1x64x64xbf16>
    tile.async_copy %b[%c0, %c0], %rb stage %i : memref<64x64xbf16>, !tile.shared<1x64x64xbf16>
    tile.wait_async stage %i
    %n = tile.mma %ra, %rb, %s stage %i : !tile.shared<1x64x64xbf16>, !tile.shared<1x64x64xbf16>, !tile.fragment<64x64xf32, acc>
    tile.release stage %i
    scf.yield %n : !tile.fragment<64x64xf32, acc>
  }
  tile.store_fragment %sum, %y[%c0, %c0] : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>
  tile.return
}
