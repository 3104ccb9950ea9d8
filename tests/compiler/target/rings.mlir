// SPDX-License-Identifier: Apache-2.0
// A block has eight rings, and maps of four buffers for the copy engine; one more is refused.
// RUN: tile-code cuda:sm_90a text %s %t
// RUN: sed 's/^  tile.return/  %r8 = tile.alloc_shared swizzle = "none" : !tile.shared<1x8x8xf32>\n&/' %s >%t.mlir && not tile-code cuda:sm_90a text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=RINGS
// RUN: sed 's/^  tile.wait_async/  tile.async_copy %a4[%k, %k], %r4 stage %k : memref<64x64xbf16>, !tile.shared<1x64x64xbf16>\n&/' %s >%t.mlir && not tile-code cuda:sm_90a text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=MAPS
// Where threads copy, no maps are needed.
// RUN: tile-code cuda:sm_80 text %t.mlir %t
// RINGS: kernel 'k' has more than 8 rings
// MAPS: kernel 'k' copies from and to more than 4 buffers or kinds of boxes
tile.func @k(%a0: memref<64x64xbf16>, %a1: memref<64x64xbf16>, %a2: memref<64x64xbf16>, %a3: memref<64x64xbf16>, %a4: memref<64x64xbf16>) grid 1 warps 4 {
  %k = arith.constant 0 : index
  %r0 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  %r1 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  %r2 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  %r3 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  %r4 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  %r5 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  %r6 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  %r7 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  tile.async_copy %a0[%k, %k], %r0 stage %k : memref<64x64xbf16>, !tile.shared<1x64x64xbf16>
  tile.async_copy %a1[%k, %k], %r1 stage %k : memref<64x64xbf16>, !tile.shared<1x64x64xbf16>
  tile.async_copy %a2[%k, %k], %r2 stage %k : memref<64x64xbf16>, !tile.shared<1x64x64xbf16>
  tile.async_copy %a3[%k, %k], %r3 stage %k : memref<64x64xbf16>, !tile.shared<1x64x64xbf16>
  tile.wait_async stage %k
  tile.release stage %k
  tile.return
}
