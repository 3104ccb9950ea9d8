// SPDX-License-Identifier: Apache-2.0
// A product on the matrix units of each kind of AMD GPU, from one Tile IR.
// RUN: tile-code hip:gfx90a text %s %t && FileCheck %s --check-prefixes=ALL,GFX90A --input-file=%t
// RUN: tile-code hip:gfx942 text %s %t && FileCheck %s --check-prefixes=ALL,GFX942 --input-file=%t
// RUN: tile-code hip:gfx9-4-generic text %s %t && FileCheck %s --check-prefixes=ALL,GFX942 --input-file=%t
// RUN: tile-code hip:gfx1100 text %s %t && FileCheck %s --check-prefixes=ALL,RDNA --input-file=%t
// RUN: tile-code hip:gfx12-generic text %s %t && FileCheck %s --check-prefixes=ALL,RDNA --input-file=%t

// ALL-LABEL: {{^}}product:
// The loads of the first step. Then LLVM puts the products before the rest of the loop: stores to shared memory, the barrier, the loads of the
// next step.
// ALL: global_load_{{dwordx4|b128}}
// ALL: ds_{{read|load}}_b128
// GFX90A: v_mfma_f32_16x16x16bf16_1k
// GFX942: v_mfma_f32_16x16x16_bf16
// RDNA: v_wmma_f32_16x16x16_bf16
// ALL: ds_{{write|store}}_b128
// ALL: s_barrier{{$|_signal}}
// ALL: global_load_{{dwordx4|b128}}
// ALL: .group_segment_fixed_size: 0
// ALL: .max_flat_workgroup_size: 128
// ALL: .private_segment_fixed_size: 0
tile.func @product(%a: memref<512x1024xbf16>, %b: memref<512x1024xbf16>, %y: memref<512x512xf32>) grid 64 warps 4 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %p = tile.program_id
  %i = arith.divui %p, %c8 : index
  %j = arith.remui %p, %c8 : index
  %m = arith.muli %i, %c64 : index
  %n = arith.muli %j, %c64 : index
  %ra = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rb = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %zero = arith.constant 0.0 : f32
  %f = tile.fill %zero : f32 -> !tile.fragment<64x64xf32, acc>
  %sum = scf.for %k = %c0 to %c16 step %c1 iter_args(%s = %f) -> (!tile.fragment<64x64xf32, acc>) {
    %kk = arith.muli %k, %c64 : index
    tile.async_copy %a[%m, %kk], %ra stage %k : memref<512x1024xbf16>, !tile.shared<2x64x64xbf16>
    tile.async_copy %b[%n, %kk], %rb stage %k : memref<512x1024xbf16>, !tile.shared<2x64x64xbf16>
    tile.wait_async stage %k
    %t = tile.mma %ra, %rb, %s stage %k {transpose_b} : !tile.shared<2x64x64xbf16>, !tile.shared<2x64x64xbf16>, !tile.fragment<64x64xf32, acc>
    tile.release stage %k
    scf.yield %t : !tile.fragment<64x64xf32, acc>
  }
  tile.store_fragment %sum, %y[%m, %n] : !tile.fragment<64x64xf32, acc>, memref<512x512xf32>
  tile.return
}
