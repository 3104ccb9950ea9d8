// SPDX-License-Identifier: Apache-2.0
// Weights that fall: of each tile of 16 x 16 a lane takes the four words of one counter, by 16 products, and compares two numbers at a time.
// RUN: tile-code cuda:sm_90a text %s %t && FileCheck %s --input-file=%t
// The first block, blocks with masks, blocks without: 8 tiles each; 4 products before the first, where the loops are not.
// RUN: grep -c 'mul.wide.u32 t' %t | FileCheck %s --check-prefix=WORDS
// RUN: grep -c 'set.geu.u32.f16x2' %t | FileCheck %s --check-prefix=PAIRS
// WORDS: {{^388$}}
// PAIRS: {{^96$}}

// CHECK: ld.global.nc.b32
// CHECK: ld.global.nc.b32
// CHECK: ld.global.nc.b64
// CHECK: mul.wide.u32 t
// CHECK: cvt.rn.bf16x2.f32
// CHECK: set.geu.u32.f16x2 %{{r[0-9]+}}, t, %{{r[0-9]+}};
tile.func @attention(%q: memref<4x200x64xbf16>, %k: memref<2x200x64xbf16>, %v: memref<2x200x64xbf16>, %fh: memref<2xi64>, %e: memref<i64>, %d: memref<i64>, %o: memref<4x200x64xbf16>,
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
  tile.attend "forward"(%q, %k, %v, %o, %l, %fh, %e, %d) at [%h, %g, %r] through (%rq, %rk, %ro) {causal, pingpong, dropout = 0.1 : f64, stream = 77 : i64, scale = 0.125 : f64}
      : (memref<4x200x64xbf16>, memref<2x200x64xbf16>, memref<2x200x64xbf16>, memref<4x200x64xbf16>, memref<4x200xf32>, memref<2xi64>, memref<i64>, memref<i64>),
        (!tile.shared<2x128x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x128x64xbf16>)
  tile.return
}
