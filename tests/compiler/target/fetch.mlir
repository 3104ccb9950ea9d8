// SPDX-License-Identifier: Apache-2.0
// What lanes fetch: each copies the 16 bytes that it reads itself; no barrier stands between. Shared memory is what the launch asks for.
// RUN: tile-code cuda:sm_80 text %s %t && FileCheck %s --input-file=%t
// RUN: sed 's/tile.block_programs = 2/tile.block_programs = 3/' %s >%t.mlir && not tile-code cuda:sm_80 text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=THREE
// THREE: kernel 'beside' has 3 of 2 programs in a block; expected a divisor of the programs up to 15

// CHECK: .extern .shared .align 128 .b8 tile_locals[];
// CHECK-LABEL: .entry ring(
// CHECK-COUNT-2: cp.async.cg.shared.global [%{{.*}}], [%{{.*}}], 16;
// CHECK-NOT: cp.async.c
// CHECK: cp.async.commit_group;
// CHECK: cp.async.wait_group 1;
// CHECK-NOT: bar
// CHECK: ld.shared.v4.b32
// CHECK: st.global.v4.b32
// CHECK: ret;
tile.func @ring(%x: memref<1024xbf16>, %y: memref<512xbf16>) grid 1 attributes {tile.cooperative = 2 : i64} {
  %0 = arith.constant 0 : index
  %1 = arith.constant 512 : index
  %l = tile.local {tile.own} : memref<1024xbf16>
  tile.fetch %x[%0] to %l[%0] elements 512 : memref<1024xbf16>, memref<1024xbf16>
  tile.fetch %x[%1] to %l[%1] elements 512 : memref<1024xbf16>, memref<1024xbf16>
  tile.fetched but 1
  %a = tile.load %l[%0] {tile.blocked} : memref<1024xbf16> -> vector<512xbf16>
  tile.store %a, %y[%0] {tile.blocked} : vector<512xbf16>, memref<512xbf16>
  tile.return
}

// Elements of 4 bytes are two pieces of a lane, through the first-level cache; what a mask leaves out becomes zeros.
// CHECK-LABEL: .entry masked(
// CHECK-COUNT-2: cp.async.ca.shared.global [%{{.*}}], [%{{.*}}], 16, %
// CHECK: cp.async.wait_group 0;
// CHECK-COUNT-2: ld.shared.v4.b32
// CHECK: ret;
tile.func @masked(%x: memref<256xf32>, %y: memref<256xf32>) grid 1 {
  %0 = arith.constant 0 : index
  %n = arith.constant 200 : index
  %l = tile.local {tile.own} : memref<256xf32>
  %m = vector.create_mask %n {tile.blocked} : vector<256xi1>
  tile.fetch %x[%0] to %l[%0] mask %m : vector<256xi1> elements 256 : memref<256xf32>, memref<256xf32>
  tile.fetched but 0
  %a = tile.load %l[%0] {tile.blocked} : memref<256xf32> -> vector<256xf32>
  tile.store %a, %y[%0] {tile.blocked} : vector<256xf32>, memref<256xf32>
  tile.return
}

// Where the kernel says so a product and its sum are one FMA.
// CHECK-LABEL: .entry separate(
// CHECK-NOT: fma
// CHECK: ret;
tile.func @separate(%x: memref<32xf32>, %y: memref<32xf32>) grid 1 {
  %0 = arith.constant 0 : index
  %a = tile.load %x[%0] : memref<32xf32> -> vector<32xf32>
  %p = arith.mulf %a, %a : vector<32xf32>
  %s = arith.addf %p, %a : vector<32xf32>
  tile.store %s, %y[%0] : vector<32xf32>, memref<32xf32>
  tile.return
}
// CHECK-LABEL: .entry contracted(
// CHECK: fma.rn.f32
// CHECK: ret;
tile.func @contracted(%x: memref<32xf32>, %y: memref<32xf32>) grid 1 attributes {tile.contract} {
  %0 = arith.constant 0 : index
  %a = tile.load %x[%0] : memref<32xf32> -> vector<32xf32>
  %p = arith.mulf %a, %a : vector<32xf32>
  %s = arith.addf %p, %a : vector<32xf32>
  tile.store %s, %y[%0] : vector<32xf32>, memref<32xf32>
  tile.return
}

// Lane numbers, as many as the program has; the larger number of two.
// CHECK-LABEL: .entry steps(
// CHECK: %tid.x
// CHECK: max.f32
// CHECK: ret;
tile.func @steps(%x: memref<64xf32>, %y: memref<64xf32>) grid 1 attributes {tile.cooperative = 2 : i64} {
  %0 = arith.constant 0 : index
  %s = vector.step : vector<64xindex>
  %a = tile.gather %x[%s] : memref<64xf32>, vector<64xindex> -> vector<64xf32>
  %b = tile.load %y[%0] : memref<64xf32> -> vector<64xf32>
  %m = arith.maxnumf %a, %b : vector<64xf32>
  tile.store %m, %y[%0] : vector<64xf32>, memref<64xf32>
  tile.return
}

// Two programs of 64 threads share a block: each has a barrier of its own and its own part of the memory; the sum of both goes through it behind
// barriers of all.
// CHECK-LABEL: .entry beside(
// CHECK: .maxntid 128
// CHECK-COUNT-2: st.shared.v4
// CHECK: bar.sync 0;
// CHECK-COUNT-4: ld.shared.v4
// CHECK: bar.sync 0;
// CHECK-COUNT-2: bar.sync %r{{[0-9]+}}, 64;
// CHECK: ret;
tile.func @beside(%x: memref<1024xf32>, %y: memref<1024xf32>, %z: memref<2xf32>) grid 2 attributes {tile.cooperative = 2 : i64, tile.block_programs = 2 : i64} {
  %0 = arith.constant 0 : index
  %l = tile.local {tile.own} : memref<512xf32>
  %p = tile.program_id
  %n = arith.constant 512 : index
  %at = arith.muli %p, %n : index
  tile.fetch %x[%at] to %l[%0] elements 512 : memref<1024xf32>, memref<512xf32>
  tile.fetched but 0
  %a = tile.load %l[%0] {tile.blocked} : memref<512xf32> -> vector<512xf32>
  %r = vector.reduction <add>, %a : vector<512xf32> into f32
  tile.store %r, %z[%p] : f32, memref<2xf32>
  %d = arith.addf %a, %a : vector<512xf32>
  %s = tile.add_programs %d by %l : vector<512xf32>, memref<512xf32>
  tile.store %s, %y[%at] {tile.blocked} : vector<512xf32>, memref<1024xf32>
  tile.return
}
