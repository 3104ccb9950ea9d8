// SPDX-License-Identifier: Apache-2.0
// What lanes of AMD GPUs exchange: a wave of 64 lanes runs two programs of 32.
// RUN: tile-code hip:gfx942 text %s %t && FileCheck %s --check-prefixes=GPU,WIDE --input-file=%t
// RUN: tile-code hip:gfx1100 text %s %t && FileCheck %s --check-prefixes=GPU,NARROW --input-file=%t
// RUN: tile-code hip:gfx12-generic code %s %t && llvm-readelf --notes %t | FileCheck %s --check-prefix=NOTES

// NOTES: .group_segment_fixed_size: 1024
// NOTES: .max_flat_workgroup_size: 128
// NOTES: .name: lanes
// NOTES: .wavefront_size: 32

// GPU-LABEL: {{^}}lanes:
tile.func @lanes(%x: memref<256xf32>, %l: memref<256xi32>, %y: memref<256xf32>, %v: memref<4xi32>) grid 4 {
  %0 = arith.constant 0 : index
  %p = tile.program_id
  %a = tile.load %x[%0] : memref<256xf32> -> vector<64xf32>
  %f = tile.load %l[%0] : memref<256xi32> -> vector<64xi32>
  // GPU-COUNT-2: ds_bpermute_b32
  %s = tile.shuffle %a, %f : vector<64xf32>, vector<64xi32>
  // WIDE-COUNT-2: ds_swizzle_b32 {{.*}} offset:swizzle(SWAP,16)
  // NARROW-COUNT-2: v_permlanex16_b32
  %b = tile.butterfly %s, 16 : vector<64xf32>
  %w = tile.local : memref<64xf32>
  tile.store %b, %w[%0] : vector<64xf32>, memref<64xf32>
  // GPU: ds_{{write2|store_2addr}}_b32
  // GPU: ds_{{read|load}}_b32
  tile.barrier
  %i = arith.index_cast %f : vector<64xi32> to vector<64xindex>
  %g = tile.gather %w[%i] : memref<64xf32>, vector<64xindex> -> vector<64xf32>
  tile.store %g, %y[%0] : vector<64xf32>, memref<256xf32>
  %h = vector.extract_strided_slice %b {offsets = [0], sizes = [32], strides = [1]} : vector<64xf32> to vector<32xf32>
  %r = tile.butterfly %h, 1 : vector<32xf32>
  %c = arith.cmpf olt, %h, %r : vector<32xf32>
  // WIDE: v_lshrrev_b64
  %m = tile.vote "ballot" %c : vector<32xi1> -> i32
  tile.store %m, %v[%p] : i32, memref<4xi32>
  // GPU: s_endpgm
  tile.return
}

// GPU-LABEL: {{^}}fives:
tile.func @fives(%x: memref<32xf32>, %y: memref<160xf32>) grid 1 {
  %0 = arith.constant 0 : index
  %a = tile.load %x[%0] : memref<32xf32> -> vector<32xf32>
  // GPU: quad_perm:[1,0,3,2]
  %r = tile.butterfly %a, 1 : vector<32xf32>
  // GPU: quad_perm:[2,3,0,1]
  %b = tile.butterfly %r, 2 : vector<32xf32>
  // WIDE: ds_swizzle_b32 {{.*}} offset:swizzle(SWAP,4)
  // NARROW: row_xmask:4
  %c = tile.butterfly %b, 4 : vector<32xf32>
  // GPU: row_ror:8
  %d = tile.butterfly %c, 8 : vector<32xf32>
  tile.store %d, %y[%0] : vector<32xf32>, memref<160xf32>
  tile.return
}

// Several warps: the sum of all is exchanged through shared memory, between barriers of the block.
// GPU-LABEL: {{^}}sums:
tile.func @sums(%x: memref<128xf32>, %y: memref<4xf32>) grid 4 attributes {tile.cooperative = 4 : i64} {
  %0 = arith.constant 0 : index
  %p = tile.program_id
  %a = tile.load %x[%0] : memref<128xf32> -> vector<128xf32>
  // GPU: ds_{{write|store}}_b32
  // GPU: s_barrier
  // GPU: ds_{{read|load}}
  %s = vector.reduction <add>, %a : vector<128xf32> into f32
  tile.store %s, %y[%p] : f32, memref<4xf32>
  tile.return
}
