// SPDX-License-Identifier: Apache-2.0
// What the rule of tile.attend refuses where heads lie side by side.
// RUN: not tessera-opt --split-input-file --no-output %s 2>&1 | FileCheck %s

tile.func @attend(%x: memref<2x100x512xbf16>, %o: memref<2x100x256xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}expected tile.sides of 4 columns and tile.heads of 3 counts
  tile.attend "forward"(%x, %x, %x, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64, tile.sides = [0, 256, 384], tile.heads = [4, 2, 64]} : (memref<2x100x512xbf16>, memref<2x100x512xbf16>, memref<2x100x512xbf16>, memref<2x100x256xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%x: memref<2x100x512xbf16>, %o: memref<2x100x256xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}tile.heads: 0; expected 1 or more
  tile.attend "forward"(%x, %x, %x, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64, tile.sides = [0, 256, 384, 0], tile.heads = [4, 0, 64]} : (memref<2x100x512xbf16>, memref<2x100x512xbf16>, memref<2x100x512xbf16>, memref<2x100x256xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%x: memref<2x100x512xbf16>, %o: memref<2x100x256xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}2 heads of 64 from column 392 on are more than the 512 columns of buffer 2
  tile.attend "forward"(%x, %x, %x, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64, tile.sides = [0, 256, 392, 0], tile.heads = [4, 2, 64]} : (memref<2x100x512xbf16>, memref<2x100x512xbf16>, memref<2x100x512xbf16>, memref<2x100x256xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%x: memref<2x100x512xbf16>, %o: memref<2x100x256xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}heads begin in column 4 of 512 of buffer 0; expected multiples of 8
  tile.attend "forward"(%x, %x, %x, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64, tile.sides = [4, 256, 384, 0], tile.heads = [4, 2, 64]} : (memref<2x100x512xbf16>, memref<2x100x512xbf16>, memref<2x100x512xbf16>, memref<2x100x256xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%x: memref<200x512xbf16>, %o: memref<2x100x256xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}heads are interleaved in buffer 0, which has 2 dimensions; expected 3
  tile.attend "forward"(%x, %x, %x, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64, tile.sides = [0, 256, 384, 0], tile.heads = [4, 2, 64]} : (memref<200x512xbf16>, memref<200x512xbf16>, memref<200x512xbf16>, memref<2x100x256xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}
