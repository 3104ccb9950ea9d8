// SPDX-License-Identifier: Apache-2.0
// What lanes exchange: one instruction for each 32 elements on a GPU, vectors on a CPU.
// RUN: tile-code cuda:sm_80 text %s %t && FileCheck %s --check-prefix=PTX --input-file=%t
// RUN: tile-code cpu:x86-64-v3 text %s %t && FileCheck %s --check-prefix=CPU --input-file=%t

// CPU-LABEL: lanes:
// PTX: .entry lanes(
// PTX: .maxnreg 64
tile.func @lanes(%x: memref<256xf32>, %l: memref<256xi32>, %y: memref<256xf32>, %v: memref<4xi32>) grid 4 registers 64 {
  %0 = arith.constant 0 : index
  %p = tile.program_id
  %a = tile.load %x[%0] : memref<256xf32> -> vector<64xf32>
  %f = tile.load %l[%0] : memref<256xi32> -> vector<64xi32>
  // PTX-COUNT-2: shfl.sync.idx.b32 {{.*}}, 31, -1;
  %s = tile.shuffle %a, %f : vector<64xf32>, vector<64xi32>
  // PTX-COUNT-2: shfl.sync.bfly.b32 {{.*}}, 16, 31, -1;
  %b = tile.butterfly %s, 16 : vector<64xf32>
  %w = tile.local : memref<64xf32>
  tile.store %b, %w[%0] : vector<64xf32>, memref<64xf32>
  // PTX: bar.warp.sync -1;
  tile.barrier
  %i = arith.index_cast %f : vector<64xi32> to vector<64xindex>
  %g = tile.gather %w[%i] : memref<64xf32>, vector<64xindex> -> vector<64xf32>
  tile.store %g, %y[%0] : vector<64xf32>, memref<256xf32>
  %h = vector.extract_strided_slice %b {offsets = [0], sizes = [32], strides = [1]} : vector<64xf32> to vector<32xf32>
  %r = tile.butterfly %h, 1 : vector<32xf32>
  %c = arith.cmpf olt, %h, %r : vector<32xf32>
  // PTX: vote.sync.ballot.b32
  // CPU: vpmovmskb
  %m = tile.vote "ballot" %c : vector<32xi1> -> i32
  tile.store %m, %v[%p] : i32, memref<4xi32>
  tile.return
}
