// SPDX-License-Identifier: Apache-2.0
// A blocked vector is moved 16 bytes a lane at a time; a mask, or too few elements, leave it as it is.
// RUN: tile-code cuda:sm_80 text %s %t && FileCheck %s --input-file=%t

// CHECK-LABEL: .entry k(
// CHECK-COUNT-2: ld.global.nc.v4.b32
// CHECK-COUNT-4: st.global.v4.b32
// CHECK: ret;
tile.func @k(%x: memref<512xbf16>, %y: memref<512xf32>) grid 1 {
  %0 = arith.constant 0 : index
  %a = tile.load %x[%0] {tile.blocked} : memref<512xbf16> -> vector<512xbf16>
  %b = arith.extf %a : vector<512xbf16> to vector<512xf32>
  tile.store %b, %y[%0] {tile.blocked} : vector<512xf32>, memref<512xf32>
  tile.return
}

// CHECK-LABEL: .entry few(
// CHECK-NOT: .v4.
// CHECK: ret;
tile.func @few(%x: memref<512xf32>, %y: memref<512xf32>) grid 1 {
  %0 = arith.constant 0 : index
  %a = tile.load %x[%0] {tile.blocked} : memref<512xf32> -> vector<64xf32>
  tile.store %a, %y[%0] {tile.blocked} : vector<64xf32>, memref<512xf32>
  %n = arith.constant 200 : index
  %m = vector.create_mask %n : vector<256xi1>
  %b = tile.load %x[%0] mask %m : vector<256xi1> {tile.blocked} : memref<512xf32> -> vector<256xf32>
  tile.store %b, %y[%0] mask %m : vector<256xi1> {tile.blocked} : vector<256xf32>, memref<512xf32>
  tile.return
}

// Runs that a mask leaves out are not read where they lie, nor written.
// CHECK-LABEL: .entry masked(
// CHECK: setp
// CHECK-COUNT-2: ld.global.nc.v4.b32
// CHECK-COUNT-2: st.global.v4.b32
// CHECK: ret;
tile.func @masked(%x: memref<512xf32>, %y: memref<512xf32>) grid 1 {
  %0 = arith.constant 0 : index
  %n = arith.constant 200 : index
  %m = vector.create_mask %n {tile.blocked} : vector<256xi1>
  %b = tile.load %x[%0] mask %m : vector<256xi1> {tile.blocked} : memref<512xf32> -> vector<256xf32>
  tile.store %b, %y[%0] mask %m : vector<256xi1> {tile.blocked} : vector<256xf32>, memref<512xf32>
  tile.return
}

// Two warps: 16 bytes a lane of both; sums go through shared memory, those of two vectors behind one barrier, and behind a second one the next
// program's may be written.
// CHECK-LABEL: .entry cooperative(
// CHECK: .maxntid 64
// CHECK-COUNT-10: shfl.sync.bfly
// CHECK: st.shared
// CHECK: st.shared
// CHECK: bar.sync 0
// CHECK-COUNT-4: ld.shared
// CHECK: bar.sync 0
// CHECK-NOT: bar.sync
// CHECK: ret;
tile.func @cooperative(%x: memref<512xf32>, %y: memref<2xf32>) grid 1 attributes {tile.cooperative = 2 : i64} {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %a = tile.load %x[%0] {tile.blocked} : memref<512xf32> -> vector<512xf32>
  %s = vector.reduction <add>, %a : vector<512xf32> into f32
  %m = vector.reduction <maximumf>, %a : vector<512xf32> into f32
  tile.store %s, %y[%0] : f32, memref<2xf32>
  tile.store %m, %y[%1] : f32, memref<2xf32>
  tile.return
}
