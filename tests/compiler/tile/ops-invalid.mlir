// What the types of a kernel's memory accesses must be.
// RUN: not tessera-opt --split-input-file --no-output %s 2>&1 | FileCheck %s

// CHECK: [[@LINE+3]]:8: error: {{.*}}'tile.load' op failed to verify that value and buffer have one element type
tile.func @load(%x: memref<8xf32>) grid 1 {
  %p = tile.program_id
  %a = tile.load %x[%p] : memref<8xf32> -> f64
  tile.return
}

// -----
// CHECK: [[@LINE+4]]:3: error: {{.*}}'tile.store' op failed to verify that value and buffer have one element type
tile.func @store(%x: memref<8xi32>, %y: memref<8xf32>) grid 1 {
  %p = tile.program_id
  %a = tile.load %x[%p] : memref<8xi32> -> vector<4xi32>
  tile.store %a, %y[%p] : vector<4xi32>, memref<8xf32>
  tile.return
}

// -----
// CHECK: [[@LINE+4]]:8: error: {{.*}}'tile.load' op failed to verify that the mask has a lane for each of the vector
tile.func @mask(%x: memref<8xf32>) grid 1 {
  %p = tile.program_id
  %m = vector.create_mask %p : vector<8xi1>
  %a = tile.load %x[%p] mask %m : vector<8xi1> : memref<8xf32> -> vector<4xf32>
  tile.return
}

// -----
// CHECK: [[@LINE+5]]:3: error: {{.*}}'tile.store' op failed to verify that the mask has a lane for each of the vector
tile.func @scalar(%x: memref<8xf32>, %a: memref<8xf32>) grid 1 {
  %p = tile.program_id
  %v = tile.load %x[%p] : memref<8xf32> -> f32
  %m = vector.create_mask %p : vector<8xi1>
  tile.store %v, %a[%p] mask %m : vector<8xi1> : f32, memref<8xf32>
  tile.return
}

// -----
// CHECK: [[@LINE+2]]:8: error: {{.*}}'tile.constant' op failed to verify that the elements are those of the buffer's type
tile.func @count(%x: memref<8xf32>) grid 1 {
  %c = tile.constant dense<[1.0, 2.0]> : tensor<2xf32> : memref<8xf32>
  tile.return
}

// -----
// CHECK: [[@LINE+2]]:8: error: {{.*}}'tile.constant' op failed to verify that the elements are those of the buffer's type
tile.func @type(%x: memref<8xf32>) grid 1 {
  %c = tile.constant dense<1> : tensor<8xi64> : memref<8xf32>
  tile.return
}

// -----
// CHECK: [[@LINE+2]]:22: error: {{.*}}custom op 'tile.constant' invalid kind of attribute specified
tile.func @sparse(%x: memref<8xf32>) grid 1 {
  %c = tile.constant sparse<[[0]], [1.0]> : tensor<8xf32> : memref<8xf32>
  tile.return
}

// -----
// CHECK: [[@LINE+4]]:8: error: {{.*}}columns of the sum and of all parts
tile.func @parts(%c: memref<64x128xf32>) grid 4 warps 4 attributes {tile.together = 2 : i64} {
  %z = arith.constant 0.0 : f32
  %s = tile.fill %z : f32 -> !tile.fragment<64x128xf32, acc>
  %t = tile.sum_programs %s : !tile.fragment<64x128xf32, acc> -> !tile.fragment<64x32xf32, acc>
  tile.return
}

// -----
// CHECK: [[@LINE+4]]:8: error: {{.*}}rows of the sum and of a part
tile.func @rows(%c: memref<64x128xf32>) grid 4 warps 4 attributes {tile.together = 2 : i64} {
  %z = arith.constant 0.0 : f32
  %s = tile.fill %z : f32 -> !tile.fragment<64x128xf32, acc>
  %t = tile.sum_programs %s : !tile.fragment<64x128xf32, acc> -> !tile.fragment<128x64xf32, acc>
  tile.return
}
