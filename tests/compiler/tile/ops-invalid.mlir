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

// -----
// CHECK: [[@LINE+4]]:8: error: {{.*}}programs that run together are 9223372036854775807; expected 2 to 8
tile.func @many(%c: memref<64x128xf32>) grid 4 warps 4 attributes {tile.together = 9223372036854775807 : i64} {
  %z = arith.constant 0.0 : f32
  %s = tile.fill %z : f32 -> !tile.fragment<64x128xf32, acc>
  %t = tile.sum_programs %s : !tile.fragment<64x128xf32, acc> -> !tile.fragment<64x32xf32, acc>
  tile.return
}

// -----
// CHECK: [[@LINE+4]]:8: error: {{.*}}programs that run together are 1; expected 2 to 8
tile.func @alone(%c: memref<64x128xf32>) grid 4 warps 4 {
  %z = arith.constant 0.0 : f32
  %s = tile.fill %z : f32 -> !tile.fragment<64x128xf32, acc>
  %t = tile.sum_programs %s : !tile.fragment<64x128xf32, acc> -> !tile.fragment<64x128xf32, acc>
  tile.return
}

// -----
// Sizes that more than 64 bits count.
// CHECK: [[@LINE+2]]:8: error: {{.*}}elements of the view are -1; expected 0 to 9223372036854775807
tile.func @view(%x: memref<8xf32>) grid 1 {
  %v = tile.view %x : memref<8xf32> -> memref<4294967296x4294967296xf32>
  tile.return
}

// -----
// CHECK: [[@LINE+2]]:8: error: {{.*}}elements of the buffer and of the view: -1 and 0
tile.func @whole(%x: memref<4294967296x4294967296xf32>) grid 1 {
  %v = tile.view %x : memref<4294967296x4294967296xf32> -> memref<0xf32>
  tile.return
}

// -----
// A ring is what tile.alloc_shared makes, whatever its type says.
// CHECK: [[@LINE+6]]:8: error: {{.*}}a ring is not a result of tile.alloc_shared
tile.func @ring(%c: memref<64x64xf32>) grid 1 warps 4 {
  %k = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %r = builtin.unrealized_conversion_cast to !tile.shared<2x64x64xi32> {swizzle = "xor"}
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  %m = tile.mma %r, %r, %s stage %k : !tile.shared<2x64x64xi32>, !tile.shared<2x64x64xi32>, !tile.fragment<64x64xf32, acc>
  tile.return
}

// -----
// CHECK: [[@LINE+5]]:8: error: {{.*}}elements of a matrix are bf16, f16 or f32
tile.func @behind(%c: memref<64x64xf32>) grid 1 warps 4 {
  %k = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  %m = tile.mma %r, %r, %s stage %k : !tile.shared<2x64x64xi32>, !tile.shared<2x64x64xi32>, !tile.fragment<64x64xf32, acc>
  %r = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xi32>
  tile.return
}

// -----
// CHECK: [[@LINE+7]]:8: error: {{.*}}a fragment "a" has elements of bf16 or f16
tile.func @factor(%c: memref<64x64xf32>) grid 1 warps 4 {
  %k = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %r = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  %a = builtin.unrealized_conversion_cast to !tile.fragment<64x64xi32, a>
  %m = tile.mma %a, %r, %s stage %k : !tile.fragment<64x64xi32, a>, !tile.shared<2x64x64xbf16>, !tile.fragment<64x64xf32, acc>
  tile.return
}

// -----
// CHECK: [[@LINE+8]]:5: error: {{.*}}a ring is not a result of tile.alloc_shared
tile.func @carried(%c: memref<64x64xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %r = tile.alloc_shared swizzle = "none" : !tile.shared<2x64x64xf32>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  %q = scf.for %k = %0 to %1 step %1 iter_args(%ring = %r) -> (!tile.shared<2x64x64xf32>) {
    tile.store_shared %s, %ring stage %0 : !tile.fragment<64x64xf32, acc>, !tile.shared<2x64x64xf32>
    scf.yield %ring : !tile.shared<2x64x64xf32>
  }
  tile.return
}

// -----
// CHECK: [[@LINE+4]]:3: error: {{.*}}a ring is not a result of tile.alloc_shared
tile.func @copied(%a: memref<64x64xf32>) grid 1 warps 4 {
  %k = arith.constant 0 : index
  %r = builtin.unrealized_conversion_cast to !tile.shared<2x4294967296x4294967296xf32>
  tile.async_copy %a[%k, %k], %r stage %k : memref<64x64xf32>, !tile.shared<2x4294967296x4294967296xf32>
  tile.return
}

// -----
// What an op holds is checked before the op: these lack operands and results.
// CHECK: [[@LINE+2]]:3: error: {{.*}}'tile.async_copy' op expected 3 or more operands, but found 0
tile.func @copy(%c: memref<64x64xf32>) grid 1 warps 4 {
  "tile.async_copy"() : () -> ()
  tile.return
}

// -----
// CHECK: [[@LINE+2]]:3: error: {{.*}}'tile.alloc_shared' op requires one result
tile.func @alloc(%c: memref<64x64xf32>) grid 1 warps 4 {
  "tile.alloc_shared"() : () -> ()
  tile.return
}

// -----
// CHECK: [[@LINE+7]]:5: error: {{.*}}'tile.yield' op requires a single operand
tile.func @yield(%c: memref<64x64xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  %m = tile.map %s at [%0, %0] : !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>):
    "tile.yield"() : () -> ()
  }
  tile.return
}

// -----
tile.func @f(%x: memref<8xf32>) grid 1 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.view: the view has elements of another type
  %v = tile.view %x : memref<8xf32> -> memref<8xi32>
  tile.return
}

// -----
tile.func @f(%x: memref<8xf32>) grid 1 {
  %l = tile.local : memref<8xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.view: is a view of a buffer that is not an argument of the kernel
  %v = tile.view %l : memref<8xf32> -> memref<2x4xf32>
  tile.return
}

// -----
tile.func @f(%x: memref<8xf32>) grid 1 {
  %i = arith.constant dense<0> : vector<4xindex>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.gather: the element type differs from the buffer's
  %v = tile.gather %x[%i] : memref<8xf32>, vector<4xindex> -> vector<4xf64>
  tile.return
}

// -----
tile.func @f(%x: memref<8xf32>) grid 1 {
  %i = arith.constant dense<0> : vector<4xindex>
  %v = arith.constant dense<0.0> : vector<4xf64>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.scatter: the element type differs from the buffer's
  tile.scatter %v, %x[%i] : vector<4xf64>, memref<8xf32>, vector<4xindex>
  tile.return
}

// -----
tile.func @f(%x: memref<8xf32>) grid 1 {
  %i = arith.constant dense<0> : vector<8xindex>
  %v = arith.constant dense<0.0> : vector<4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-{{[0-9]+}}] tile.scatter: {{.*}}offsets and elements
  tile.scatter %v, %x[%i] : vector<4xf32>, memref<8xf32>, vector<8xindex>
  tile.return
}

// -----
tile.func @f(%a: memref<512x256xbf16>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %t = arith.constant 1 : index
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  tile.async_copy %a[%s, %s], %ring stage %s : memref<512x256xbf16>, !tile.shared<4x128x64xbf16>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0704] tile.async_copy: is not at the same position, with the same stage, as the first copy of the program
  tile.async_copy %a[%s, %s], %ring stage %t : memref<512x256xbf16>, !tile.shared<4x128x64xbf16>
  tile.return
}

// -----
tile.func @f(%a: memref<512x256xbf16>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %l = tile.local : memref<512x256xbf16>
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.async_copy: copies from a buffer that is not an argument of the kernel
  tile.async_copy %l[%s, %s], %ring stage %s : memref<512x256xbf16>, !tile.shared<4x128x64xbf16>
  tile.return
}

// -----
tile.func @f(%a: memref<512x256xf16>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.async_copy: the buffer and the ring differ in element type
  tile.async_copy %a[%s, %s], %ring stage %s : memref<512x256xf16>, !tile.shared<4x128x64xbf16>
  tile.return
}

// -----
tile.func @f(%a: memref<8xf32>) grid 1 warps 4 {
  %z = arith.constant 0.0 : f64
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.fill: the type of the value differs from the fragment's
  %s = tile.fill %z : f64 -> !tile.fragment<64x64xf32, acc>
  tile.return
}

// -----
tile.func @f(%a: memref<8xf32>) grid 1 warps 4 {
  %z = arith.constant 0.0 : f32
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.fill: a fragment "acc" has elements of f32
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xbf16, acc>
  tile.return
}

// -----
tile.func @f(%a: memref<512x256xbf16>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<4x64x64xbf16>
  %x = tile.load_shared %ring stage %s : !tile.shared<4x64x64xbf16> -> !tile.fragment<64x64xbf16, a>
  %acc = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.mma: a fragment cannot be transposed
  %y = tile.mma %x, %ring, %acc stage %s {transpose_a} : !tile.fragment<64x64xbf16, a>, !tile.shared<4x64x64xbf16>, !tile.fragment<64x64xf32, acc>
  tile.return
}

// -----
tile.func @f(%a: memref<512x256xbf16>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<4x64x64xbf16>
  %acc = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.mma: expected a fragment "acc" as the sum, and as A a ring or a fragment "a"
  %y = tile.mma %acc, %ring, %acc stage %s : !tile.fragment<64x64xf32, acc>, !tile.shared<4x64x64xbf16>, !tile.fragment<64x64xf32, acc>
  tile.return
}

// -----
tile.func @f(%a: memref<512x256xbf16>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<4x64x64xbf16>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.load_shared: a fragment "a" cannot be transposed
  %x = tile.load_shared %ring stage %s {transpose} : !tile.shared<4x64x64xbf16> -> !tile.fragment<64x64xbf16, a>
  tile.return
}

// -----
tile.func @f(%a: memref<512x256xf32>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<4x64x32xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0701] tile.load_shared: rows
  %x = tile.load_shared %ring stage %s {transpose} : !tile.shared<4x64x32xf32> -> !tile.fragment<64x32xf32, acc>
  tile.return
}

// -----
tile.func @f(%a: memref<512x256xbf16>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<4x64x64xbf16>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.load_shared: the ring and the fragment differ in element type
  %x = tile.load_shared %ring stage %s : !tile.shared<4x64x64xbf16> -> !tile.fragment<64x64xf16, a>
  tile.return
}

// -----
tile.func @f(%a: memref<512x256xbf16>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<4x64x64xbf16>
  %x = tile.load_shared %ring stage %s : !tile.shared<4x64x64xbf16> -> !tile.fragment<64x64xbf16, a>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.store_shared: expected a fragment "acc"
  tile.store_shared %x, %ring stage %s : !tile.fragment<64x64xbf16, a>, !tile.shared<4x64x64xbf16>
  tile.return
}

// -----
tile.func @f(%a: memref<512x256xf32>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %acc = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.map: expected a fragment "acc" and a body of rows, columns and elements
  %y = tile.map %acc at [%s, %s] : !tile.fragment<64x64xf32, acc> {
  ^bb0(%e: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  tile.return
}

// -----
tile.func @f(%a: memref<512x256xf32>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %acc = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.map: argument 1 of the body is not a vector<64xindex>
  %y = tile.map %acc at [%s, %s] : !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xi64>, %e: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  tile.return
}

// -----
tile.func @f(%a: memref<512x256xf32>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %acc = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.map: the body does not end with tile.yield of elements
  %y = tile.map %acc at [%s, %s] : !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>):
    %c = arith.constant dense<0> : vector<64xi32>
    tile.yield %c : vector<64xi32>
  }
  tile.return
}

// -----
tile.func @f(%a: memref<512x256xbf16>) grid 4 warps 4 attributes {tile.together = 2 : i64} {
  %s = arith.constant 0 : index
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<4x64x64xbf16>
  %x = tile.load_shared %ring stage %s : !tile.shared<4x64x64xbf16> -> !tile.fragment<64x64xbf16, a>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.sum_programs: expected fragments "acc"
  %y = tile.sum_programs %x : !tile.fragment<64x64xbf16, a> -> !tile.fragment<64x32xf32, acc>
  tile.return
}

// -----
tile.func @f(%c: memref<512x256xi64>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %acc = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.store_fragment: expected a fragment "acc" and a buffer of f32, bf16 or f16
  tile.store_fragment %acc, %c[%s, %s] : !tile.fragment<64x64xf32, acc>, memref<512x256xi64>
  tile.return
}

// -----
tile.func @f(%c: memref<512x256xf16>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %acc = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.store_fragment: the ring and the buffer differ in element type
  tile.store_fragment %acc, %c[%s, %s] through %ring : !tile.fragment<64x64xf32, acc>, memref<512x256xf16>, !tile.shared<2x64x64xbf16>
  tile.return
}

// -----
tile.func @f(%c: memref<512x256xbf16>) grid 1 warps 4 {
  %s = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %acc = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  %ring = tile.alloc_shared swizzle = "none" : !tile.shared<2x64x64xbf16>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0703] tile.store_fragment: through: expected swizzle "xor"
  tile.store_fragment %acc, %c[%s, %s] through %ring : !tile.fragment<64x64xf32, acc>, memref<512x256xbf16>, !tile.shared<2x64x64xbf16>
  tile.return
}

// -----
// CHECK: [[@LINE+5]]:8: error: {{.*}}tile.dot: 16 elements and 16 sums; expected two for each sum
tile.func @sums(%x: memref<32xbf16>, %y: memref<16xf32>) grid 1 {
  %p = tile.program_id
  %a = tile.load %x[%p] : memref<32xbf16> -> vector<16xbf16>
  %s = tile.load %y[%p] : memref<16xf32> -> vector<16xf32>
  %d = tile.dot %a, %a, %s : vector<16xbf16>, vector<16xbf16>, vector<16xf32>
  tile.return
}

// -----
// CHECK: [[@LINE+6]]:8: error: {{.*}}tile.dot: 4 elements and 16 sums; expected one pair, or one for each
tile.func @pairs(%x: memref<32xbf16>, %y: memref<16xf32>) grid 1 {
  %p = tile.program_id
  %a = tile.load %x[%p] : memref<32xbf16> -> vector<4xbf16>
  %b = tile.load %x[%p] : memref<32xbf16> -> vector<32xbf16>
  %s = tile.load %y[%p] : memref<16xf32> -> vector<16xf32>
  %d = tile.dot %a, %b, %s : vector<4xbf16>, vector<32xbf16>, vector<16xf32>
  tile.return
}

// -----
// CHECK: [[@LINE+5]]:8: error: {{.*}}'tile.dot' op operand #0 must be {{.*}}bfloat16
tile.func @halves(%x: memref<32xf16>, %y: memref<16xf32>) grid 1 {
  %p = tile.program_id
  %a = tile.load %x[%p] : memref<32xf16> -> vector<32xf16>
  %s = tile.load %y[%p] : memref<16xf32> -> vector<16xf32>
  %d = tile.dot %a, %a, %s : vector<32xf16>, vector<32xf16>, vector<16xf32>
  tile.return
}

// -----
tile.func @wider(%x: memref<4x6xbf16, strided<[8, 1]>>) grid 1 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0701] tile.view: pitches of the buffer and of the view: 8 and 0
  %v = tile.view %x : memref<4x6xbf16, strided<[8, 1]>> -> memref<2x2x6xbf16>
  tile.return
}

// -----
tile.func @rows(%x: memref<4x6xbf16, strided<[8, 1]>>) grid 1 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0701] tile.view: rows of the buffer and of the view: 6 and 3
  %v = tile.view %x : memref<4x6xbf16, strided<[8, 1]>> -> memref<8x3xbf16, strided<[8, 1]>>
  tile.return
}

// -----
tile.func @layout(%x: memref<4x6xbf16, strided<[1, 4]>>) grid 1 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0702] tile.view: a buffer is neither dense nor has a pitch
  %v = tile.view %x : memref<4x6xbf16, strided<[1, 4]>> -> memref<24xbf16>
  tile.return
}
