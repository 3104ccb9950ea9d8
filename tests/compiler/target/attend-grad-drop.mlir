// SPDX-License-Identifier: Apache-2.0
// Weights that fall, of the gradients: words come while products are under way, halves of them go to the lane of the other key; what fell is negative, and 0 for the values' gradient.
// RUN: tile-code cuda:sm_90a text %s %t && FileCheck %s --input-file=%t
// Of the first step, and of the next one: 4 tiles each, 4 products before them.
// RUN: grep -c 'mul.wide.u32 t' %t | FileCheck %s --check-prefix=WORDS
// WORDS: {{^136$}}

// CHECK: mul.wide.u32 t
// CHECK: prmt.b32
// CHECK: shfl.sync.bfly.b32 %{{r[0-9]+}}, %{{r[0-9]+}}, 4, 31, -1;
// CHECK: prmt.b32
// CHECK: set.geu.u32.f16x2
// CHECK: ex2.approx.ftz.f32
// CHECK: cvt.rn.relu.bf16x2.f32
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// CHECK: wgmma.wait_group.sync.aligned 1
// CHECK: ld.shared.v2.f32
// CHECK: setp.ge{{.*}}.f32
tile.func @gradient(%q: memref<4x512x128xbf16>, %k: memref<2x512x128xbf16>, %v: memref<2x512x128xbf16>, %g: memref<4x512x128xbf16>,
                    %l: memref<4x512xf32>, %t: memref<4x512xf32>, %n: memref<4x8xi32>, %h: memref<2xi64>, %e: memref<i64>, %d: memref<i64>, %s: memref<4x512x128xf32>,
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
  tile.attend "backward"(%q, %k, %v, %g, %l, %t, %n, %s, %dk, %dv, %h, %e, %d) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {causal, dropout = 0.1 : f64, stream = 77 : i64, scale = 0.125 : f64}
      : (memref<4x512x128xbf16>, memref<2x512x128xbf16>, memref<2x512x128xbf16>, memref<4x512x128xbf16>, memref<4x512xf32>, memref<4x512xf32>, memref<4x8xi32>, memref<4x512x128xf32>, memref<2x512x128xbf16>, memref<2x512x128xbf16>, memref<2xi64>, memref<i64>, memref<i64>),
        (!tile.shared<1x128x128xbf16>, !tile.shared<1x128x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x128x64xbf16>, !tile.shared<2x64x128xf32>, !tile.shared<2x2x64xf32>)
  tile.return
}
