// SPDX-License-Identifier: Apache-2.0
// Ops on what the threads of a program hold together: pretty form, generic form, bytecode.
// RUN: tessera-opt %s | tessera-opt | FileCheck %s
// RUN: tessera-opt -mlir-print-op-generic %s | tessera-opt | FileCheck %s
// RUN: tessera-opt --emit-bytecode %s | tessera-opt | FileCheck %s

// CHECK-LABEL: tile.func @lanes(
// CHECK-SAME:    grid 4 registers 64 {
tile.func @lanes(%x: memref<256xf32>, %l: memref<256xi32>) grid 4 registers 64 {
  %p = tile.program_id
  %a = tile.load %x[%p] : memref<256xf32> -> vector<64xf32>
  %f = tile.load %l[%p] : memref<256xi32> -> vector<64xi32>
  // CHECK: tile.shuffle %[[A:.*]], %[[F:.*]] : vector<64xf32>, vector<64xi32>
  %s = tile.shuffle %a, %f : vector<64xf32>, vector<64xi32>
  // CHECK: tile.butterfly %[[A]], 16 : vector<64xf32>
  %b = tile.butterfly %a, 16 : vector<64xf32>
  // CHECK: tile.barrier
  tile.barrier
  %c = vector.create_mask %p : vector<32xi1>
  // CHECK: tile.vote "any" %[[C:.*]] : vector<32xi1> -> i1
  %any = tile.vote "any" %c : vector<32xi1> -> i1
  // CHECK: tile.vote "ballot" %[[C]] : vector<32xi1> -> i32
  %bits = tile.vote "ballot" %c : vector<32xi1> -> i32
  // CHECK: %[[I:.*]] = arith.index_cast
  %i = arith.index_cast %f : vector<64xi32> to vector<64xindex>
  // CHECK: tile.gather %{{.*}}[%[[I]]] : memref<256xf32>, vector<64xindex> -> vector<64xf32>
  %g = tile.gather %x[%i] : memref<256xf32>, vector<64xindex> -> vector<64xf32>
  // CHECK: tile.scatter %{{.*}}, %{{.*}}[%[[I]]] : vector<64xf32>, memref<256xf32>, vector<64xindex>
  tile.scatter %g, %x[%i] : vector<64xf32>, memref<256xf32>, vector<64xindex>
  tile.return
}

// CHECK-LABEL: tile.func @product(
// CHECK-SAME:    %[[A:.*]]: memref<2x128x64xbf16>, %[[B:.*]]: memref<64x128xbf16>, %[[C:.*]]: memref<256x128xbf16>)
// CHECK-SAME:    grid 4 warps 4 registers 168 shared 147456 attributes {outputs = 1 : i64} {
tile.func @product(%a: memref<2x128x64xbf16>, %b: memref<64x128xbf16>, %c: memref<256x128xbf16>)
    grid 4 warps 4 registers 168 shared 147456 attributes {outputs = 1 : i64} {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  // CHECK: %[[V:.*]] = tile.view %[[A]] : memref<2x128x64xbf16> -> memref<256x64xbf16>
  %v = tile.view %a : memref<2x128x64xbf16> -> memref<256x64xbf16>
  // CHECK: %[[RA:.*]] = tile.alloc_shared swizzle = "xor" : !tile.shared<4x64x64xbf16>
  %ra = tile.alloc_shared swizzle = "xor" : !tile.shared<4x64x64xbf16>
  // CHECK: %[[RB:.*]] = tile.alloc_shared swizzle = "xor" : !tile.shared<4x64x128xbf16>
  %rb = tile.alloc_shared swizzle = "xor" : !tile.shared<4x64x128xbf16>
  // CHECK: %[[RC:.*]] = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  // CHECK: tile.alloc_shared swizzle = "none" : !tile.shared<1x64x128xf32>
  %rf = tile.alloc_shared swizzle = "none" : !tile.shared<1x64x128xf32>
  // CHECK: %[[S:.*]] = tile.fill %{{.*}} : f32 -> !tile.fragment<64x128xf32, acc>
  %s = tile.fill %z : f32 -> !tile.fragment<64x128xf32, acc>
  // CHECK: tile.async_copy %[[V]][%[[I0:.*]], %[[I0]]], %[[RA]] stage %[[I0]] : memref<256x64xbf16>, !tile.shared<4x64x64xbf16>
  tile.async_copy %v[%0, %0], %ra stage %0 : memref<256x64xbf16>, !tile.shared<4x64x64xbf16>
  tile.async_copy %b[%0, %0], %rb stage %0 : memref<64x128xbf16>, !tile.shared<4x64x128xbf16>
  // CHECK: tile.wait_async stage %[[I0]]
  tile.wait_async stage %0
  // CHECK: %[[F:.*]] = tile.load_shared %[[RA]] stage %[[I0]] : !tile.shared<4x64x64xbf16> -> !tile.fragment<64x64xbf16, a>
  %f = tile.load_shared %ra stage %0 : !tile.shared<4x64x64xbf16> -> !tile.fragment<64x64xbf16, a>
  // CHECK: %[[T:.*]] = tile.mma %[[F]], %[[RB]], %[[S]] stage %[[I0]] : !tile.fragment<64x64xbf16, a>, !tile.shared<4x64x128xbf16>, !tile.fragment<64x128xf32, acc>
  %t = tile.mma %f, %rb, %s stage %0 : !tile.fragment<64x64xbf16, a>, !tile.shared<4x64x128xbf16>, !tile.fragment<64x128xf32, acc>
  // CHECK: %[[U:.*]] = tile.mma %[[RA]], %[[RB]], %[[T]] stage %[[I0]] {transpose_a} : !tile.shared<4x64x64xbf16>, !tile.shared<4x64x128xbf16>, !tile.fragment<64x128xf32, acc>
  %u = tile.mma %ra, %rb, %t stage %0 {transpose_a} : !tile.shared<4x64x64xbf16>, !tile.shared<4x64x128xbf16>, !tile.fragment<64x128xf32, acc>
  // CHECK: tile.release stage %[[I0]]
  tile.release stage %0
  // CHECK: %[[W:.*]] = tile.map %[[U]] at[%[[I0]], %[[I0]]] : !tile.fragment<64x128xf32, acc> {
  %w = tile.map %u at [%0, %0] : !tile.fragment<64x128xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>):
    %n = arith.negf %e : vector<64xf32>
    // CHECK: tile.yield %{{.*}} : vector<64xf32>
    tile.yield %n : vector<64xf32>
  }
  // CHECK: tile.store_shared %[[W]], %{{.*}} stage %[[I0]] : !tile.fragment<64x128xf32, acc>, !tile.shared<1x64x128xf32>
  tile.store_shared %w, %rf stage %0 : !tile.fragment<64x128xf32, acc>, !tile.shared<1x64x128xf32>
  // CHECK: tile.store_fragment %[[W]], %[[C]][%[[I0]], %[[I0]]] through %[[RC]] : !tile.fragment<64x128xf32, acc>, memref<256x128xbf16>, !tile.shared<2x64x64xbf16>
  tile.store_fragment %w, %c[%0, %0] through %rc : !tile.fragment<64x128xf32, acc>, memref<256x128xbf16>, !tile.shared<2x64x64xbf16>
  // CHECK: tile.store_fragment %[[W]], %[[C]][%[[I0]], %{{.*}}] : !tile.fragment<64x128xf32, acc>, memref<256x128xbf16>
  tile.store_fragment %w, %c[%0, %1] : !tile.fragment<64x128xf32, acc>, memref<256x128xbf16>
  // CHECK: %[[V:.*]] = tile.map %[[U]] at[%[[I0]], %[[I0]]] {transposed} : !tile.fragment<64x128xf32, acc> {
  %transposed = tile.map %u at [%0, %0] {transposed} : !tile.fragment<64x128xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>):
    tile.yield %e : vector<64xf32>
  }
  // CHECK: tile.store_fragment %[[V]], %[[C]][%[[I0]], %[[I0]]] through %[[RC]] {transposed} : !tile.fragment<64x128xf32, acc>, memref<256x128xbf16>, !tile.shared<2x64x64xbf16>
  tile.store_fragment %transposed, %c[%0, %0] through %rc {transposed} : !tile.fragment<64x128xf32, acc>, memref<256x128xbf16>, !tile.shared<2x64x64xbf16>
  tile.return
}

// CHECK-LABEL: tile.func @fetched(
// CHECK-SAME:    %[[R:.*]]: memref<64x64xf32>, %[[Y:.*]]: memref<64x64xf32>)
tile.func @fetched(%r: memref<64x64xf32>, %y: memref<64x64xf32>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  // CHECK: %[[RING:.*]] = tile.alloc_shared
  %ring = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x32xf32>
  // CHECK: %[[S:.*]] = tile.fill
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  // CHECK: %[[F:.*]] = tile.load_fragment %[[R]][%[[I:.*]], %[[I]]] through %[[RING]] : memref<64x64xf32>, !tile.shared<2x64x32xf32> -> !tile.fragment<64x64xf32, acc>
  %f = tile.load_fragment %r[%0, %0] through %ring : memref<64x64xf32>, !tile.shared<2x64x32xf32> -> !tile.fragment<64x64xf32, acc>
  // CHECK: %[[M:.*]] = tile.map %[[S]] at[%[[I]], %[[I]]] with %[[F]] : !tile.fragment<64x64xf32, acc>, !tile.fragment<64x64xf32, acc> {
  %m = tile.map %s at [%0, %0] with %f : !tile.fragment<64x64xf32, acc>, !tile.fragment<64x64xf32, acc> {
  ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>, %o: vector<64xf32>):
    %n = arith.addf %e, %o : vector<64xf32>
    tile.yield %n : vector<64xf32>
  }
  // CHECK: tile.store_fragment %[[M]], %[[Y]][%[[I]], %[[I]]] through %[[RING]] : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>, !tile.shared<2x64x32xf32>
  tile.store_fragment %m, %y[%0, %0] through %ring : !tile.fragment<64x64xf32, acc>, memref<64x64xf32>, !tile.shared<2x64x32xf32>
  tile.return
}

// CHECK-LABEL: tile.func @parts(
tile.func @parts(%c: memref<64x128xf32>) grid 4 warps 4 attributes {tile.together = 4 : i64} {
  %0 = arith.constant 0 : index
  %32 = arith.constant 32 : index
  %4 = arith.constant 4 : index
  %z = arith.constant 0.0 : f32
  %p = tile.program_id
  %r = arith.remui %p, %4 : index
  %n = arith.muli %r, %32 : index
  %s = tile.fill %z : f32 -> !tile.fragment<64x128xf32, acc>
  // CHECK: %[[T:.*]] = tile.sum_programs %{{.*}} : !tile.fragment<64x128xf32, acc> -> !tile.fragment<64x32xf32, acc>
  %t = tile.sum_programs %s : !tile.fragment<64x128xf32, acc> -> !tile.fragment<64x32xf32, acc>
  // CHECK: tile.store_fragment %[[T]]
  tile.store_fragment %t, %c[%0, %n] : !tile.fragment<64x32xf32, acc>, memref<64x128xf32>
  tile.return
}

// CHECK-LABEL: tile.func @attention(
// CHECK-SAME:    %[[Q:.*]]: memref<4x100x64xbf16>, %[[K:.*]]: memref<2x80x64xbf16>, %[[V:.*]]: memref<2x80x64xbf16>, %[[O:.*]]: memref<4x100x64xbf16>, %[[L:.*]]: memref<4x100xf32>)
tile.func @attention(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>,
                     %l: memref<4x100xf32>) grid 4 warps 4 attributes {outputs = 2 : i64} {
  %0 = arith.constant 0 : index
  %2 = arith.constant 2 : index
  %h = tile.program_id
  %g = arith.divui %h, %2 : index
  // CHECK: %[[RQ:.*]] = tile.alloc_shared
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  // CHECK: %[[RK:.*]] = tile.alloc_shared
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  // CHECK: %[[RO:.*]] = tile.alloc_shared
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: tile.attend "forward"(%[[Q]], %[[K]], %[[V]], %[[O]], %[[L]]) at[%{{.*}}, %{{.*}}, %{{.*}}] through(%[[RQ]], %[[RK]], %[[RO]]) {causal, scale = 1.250000e-01 : f64} : (memref<4x100x64xbf16>
  tile.attend "forward"(%q, %k, %v, %o, %l) at [%h, %g, %0] through (%rq, %rk, %ro) {causal, scale = 0.125 : f64}
      : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>, memref<4x100xf32>),
        (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}
