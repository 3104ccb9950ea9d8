// SPDX-License-Identifier: Apache-2.0
// What the rule of tile.load_fragment refuses.
// RUN: not tessera-opt --split-input-file --no-output %s 2>&1 | FileCheck %s

tile.func @f(%r: memref<64x64xf32>, %y: memref<64x64xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x32xf32>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:8: error: {{.*}}tile.load_fragment: expected one tile.map to read it, and one tile.store_fragment to store the result, through the same ring
  %f = tile.load_fragment %r[%0, %0] through %ring : memref<64x64xf32>, !tile.shared<2x64x32xf32> -> !tile.fragment<64x64xf32, acc>
  %m = tile.map %s at [%0, %0] : !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  tile.store_fragment %m, %y[%0, %0] through %ring : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>, !tile.shared<2x64x32xf32>
  tile.return
}

// -----
tile.func @f(%r: memref<64x64xf32>, %y: memref<64x64xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x32xf32>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:8: error: {{.*}}tile.load_fragment: expected one tile.map to read it, and one tile.store_fragment to store the result, through the same ring
  %f = tile.load_fragment %r[%0, %0] through %ring : memref<64x64xf32>, !tile.shared<2x64x32xf32> -> !tile.fragment<64x64xf32, acc>
  %m = tile.map %s at [%0, %0] with %f : !tile.fragment<64x64xf32, acc>, !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  tile.store_fragment %m, %y[%0, %0] : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>
  tile.return
}

// -----
tile.func @f(%r: memref<64x64xf32>, %y: memref<64x64xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x32xf32>
  %other = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x32xf32>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:8: error: {{.*}}tile.load_fragment: expected one tile.map to read it, and one tile.store_fragment to store the result, through the same ring
  %f = tile.load_fragment %r[%0, %0] through %ring : memref<64x64xf32>, !tile.shared<2x64x32xf32> -> !tile.fragment<64x64xf32, acc>
  %m = tile.map %s at [%0, %0] with %f : !tile.fragment<64x64xf32, acc>, !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  tile.store_fragment %m, %y[%0, %0] through %other : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>, !tile.shared<2x64x32xf32>
  tile.return
}

// -----
tile.func @f(%r: memref<64x64xf32>, %y: memref<64x64xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x32xf32>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:8: error: {{.*}}tile.load_fragment: expected one tile.map to read it, and one tile.store_fragment to store the result, through the same ring
  %f = tile.load_fragment %r[%0, %0] through %ring : memref<64x64xf32>, !tile.shared<2x64x32xf32> -> !tile.fragment<64x64xf32, acc>
  %m = tile.map %s at [%0, %0] with %f : !tile.fragment<64x64xf32, acc>, !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  tile.store_fragment %m, %y[%0, %0] through %ring : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>, !tile.shared<2x64x32xf32>
  tile.store_fragment %s, %y[%0, %0] through %ring : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>, !tile.shared<2x64x32xf32>
  tile.return
}

// -----
tile.func @f(%r: memref<64x64xf32>, %y: memref<64x64xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x32xf32>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:8: error: {{.*}}tile.load_fragment: expected one tile.map to read it, and one tile.store_fragment to store the result, through the same ring
  %f = tile.load_fragment %r[%0, %0] through %ring : memref<64x64xf32>, !tile.shared<2x64x32xf32> -> !tile.fragment<64x64xf32, acc>
  %m = tile.map %s at [%0, %0] with %f : !tile.fragment<64x64xf32, acc>, !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  tile.store_fragment %m, %y[%0, %0] through %ring : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>, !tile.shared<2x64x32xf32>
  tile.store_fragment %m, %y[%0, %0] : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>
  tile.return
}

// -----
tile.func @f(%r: memref<64x64xf32>, %y: memref<64x64xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x32xf32>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:8: error: {{.*}}tile.load_fragment: 1 indices of 2 dimensions; expected the same number of both, at least 2
  %f = tile.load_fragment %r[%0] through %ring : memref<64x64xf32>, !tile.shared<2x64x32xf32> -> !tile.fragment<64x64xf32, acc>
  %m = tile.map %s at [%0, %0] with %f : !tile.fragment<64x64xf32, acc>, !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  tile.store_fragment %m, %y[%0, %0] through %ring : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>, !tile.shared<2x64x32xf32>
  tile.return
}

// -----
tile.func @f(%r: memref<64x64xbf16>, %y: memref<64x64xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x32xf32>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:8: error: {{.*}}tile.load_fragment: the ring and the buffer differ in element type
  %f = tile.load_fragment %r[%0, %0] through %ring : memref<64x64xbf16>, !tile.shared<2x64x32xf32> -> !tile.fragment<64x64xf32, acc>
  %m = tile.map %s at [%0, %0] with %f : !tile.fragment<64x64xf32, acc>, !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  tile.store_fragment %m, %y[%0, %0] through %ring : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>, !tile.shared<2x64x32xf32>
  tile.return
}

// -----
tile.func @f(%r: memref<64x65xf32>, %y: memref<64x64xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x32xf32>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:8: error: {{.*}}tile.load_fragment: rows of a buffer are 260 bytes; expected a multiple of 16
  %f = tile.load_fragment %r[%0, %0] through %ring : memref<64x65xf32>, !tile.shared<2x64x32xf32> -> !tile.fragment<64x64xf32, acc>
  %m = tile.map %s at [%0, %0] with %f : !tile.fragment<64x64xf32, acc>, !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  tile.store_fragment %m, %y[%0, %0] through %ring : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>, !tile.shared<2x64x32xf32>
  tile.return
}

// -----
tile.func @f(%r: memref<64x64xf32>, %y: memref<64x66xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x32xf32>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:8: error: {{.*}}tile.load_fragment: rows of a buffer are 264 bytes; expected a multiple of 16
  %f = tile.load_fragment %r[%0, %0] through %ring : memref<64x64xf32>, !tile.shared<2x64x32xf32> -> !tile.fragment<64x64xf32, acc>
  %m = tile.map %s at [%0, %0] with %f : !tile.fragment<64x64xf32, acc>, !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  tile.store_fragment %m, %y[%0, %0] through %ring : !tile.fragment<64x64xf32, acc>, memref<64x66xf32>, !tile.shared<2x64x32xf32>
  tile.return
}

// -----
tile.func @f(%r: memref<64x64xf32>, %y: memref<64x64xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x32xf32>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:8: error: {{.*}}tile.load_fragment: the fragments that tile.map reads differ in their types
  %f = tile.load_fragment %r[%0, %0] through %ring : memref<64x64xf32>, !tile.shared<2x64x32xf32> -> !tile.fragment<64x32xf32, acc>
  %m = tile.map %s at [%0, %0] with %f : !tile.fragment<64x64xf32, acc>, !tile.fragment<64x32xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  tile.store_fragment %m, %y[%0, %0] through %ring : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>, !tile.shared<2x64x32xf32>
  tile.return
}

// -----
tile.func @f(%r: memref<64x64xf32>, %y: memref<64x64xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x32xf32>
  %own = tile.local : memref<64x64xf32>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:8: error: {{.*}}tile.load_fragment: loads from a buffer that is not an argument of the kernel
  %f = tile.load_fragment %own[%0, %0] through %ring : memref<64x64xf32>, !tile.shared<2x64x32xf32> -> !tile.fragment<64x64xf32, acc>
  %m = tile.map %s at [%0, %0] with %f : !tile.fragment<64x64xf32, acc>, !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  tile.store_fragment %m, %y[%0, %0] through %ring : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>, !tile.shared<2x64x32xf32>
  tile.return
}

// -----
module attributes {tessera.target = "cuda:sm_80"} {
tile.func @f(%r: memref<64x64xf32>, %y: memref<64x64xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x32xf32>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:8: error: {{.*}}tile.load_fragment: there is no machine code for it on 'cuda:sm_80'; expected 'cuda:sm_90a'
  %f = tile.load_fragment %r[%0, %0] through %ring : memref<64x64xf32>, !tile.shared<2x64x32xf32> -> !tile.fragment<64x64xf32, acc>
  %m = tile.map %s at [%0, %0] with %f : !tile.fragment<64x64xf32, acc>, !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  tile.store_fragment %m, %y[%0, %0] through %ring : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>, !tile.shared<2x64x32xf32>
  tile.return
}
}
