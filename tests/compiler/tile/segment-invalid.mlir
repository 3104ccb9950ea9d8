// SPDX-License-Identifier: Apache-2.0
// What tile.segment must be.
// RUN: not tessera-opt --split-input-file --no-output %s 2>&1 | FileCheck %s

tile.func @buffers(%a: memref<8xf32>, %b: memref<8xf32>, %c: memref<4xf32>) grid 3 {
  %p = tile.program_id
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0701] tile.segment: 2 segments of 2 buffers are given 3 buffers
  %n, %s, %x, %y = tile.segment %p of %a, %b, %c {first = [0, 2]} : memref<8xf32>, memref<8xf32>, memref<4xf32> -> memref<8xf32>, memref<8xf32>
  tile.return
}

// -----
tile.func @count(%a: memref<8xf32>, %b: memref<6xf32>) grid 3 {
  %p = tile.program_id
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0701] tile.segment: buffer 1 has 6 elements; its segment's first has 8
  %n, %s, %x, %y = tile.segment %p of %a, %b {first = [0]} : memref<8xf32>, memref<6xf32> -> memref<8xf32>, memref<8xf32>
  tile.return
}

// -----
tile.func @element(%a: memref<8xf32>, %b: memref<8xi32>) grid 3 {
  %p = tile.program_id
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.segment: buffer 1 and its result differ in element type
  %n, %s, %x = tile.segment %p of %a, %b {first = [0, 1]} : memref<8xf32>, memref<8xi32> -> memref<8xf32>
  tile.return
}

// -----
tile.func @largest(%a: memref<8xf32>, %b: memref<9xf32>) grid 3 {
  %p = tile.program_id
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0701] tile.segment: result 0 has 8 elements; the largest segment has 9
  %n, %s, %x = tile.segment %p of %a, %b {first = [0, 1]} : memref<8xf32>, memref<9xf32> -> memref<8xf32>
  tile.return
}

// -----
tile.func @begins(%a: memref<8xf32>, %b: memref<8xf32>) grid 3 {
  %p = tile.program_id
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0701] tile.segment: segment 0 begins at program 1; expected just 0
  %n, %s, %x = tile.segment %p of %a, %b {first = [1, 2]} : memref<8xf32>, memref<8xf32> -> memref<8xf32>
  tile.return
}

// -----
tile.func @order(%a: memref<8xf32>, %b: memref<8xf32>, %c: memref<8xf32>) grid 3 {
  %p = tile.program_id
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0701] tile.segment: segment 2 begins at program 2; expected more than 2
  %n, %s, %x = tile.segment %p of %a, %b, %c {first = [0, 2, 2]} : memref<8xf32>, memref<8xf32>, memref<8xf32> -> memref<8xf32>
  tile.return
}

// -----
tile.func @uncounted(%a: memref<64x4611686018427387904xf32>, %b: memref<8xf32>) grid 3 {
  %p = tile.program_id
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0701] tile.segment: a buffer or result is not that of a tensor, or has more than 2^63 elements
  %n, %s, %x = tile.segment %p of %a, %b {first = [0, 1]} : memref<64x4611686018427387904xf32>, memref<8xf32> -> memref<8xf32>
  tile.return
}
