// SPDX-License-Identifier: Apache-2.0
// What the rule of tile.attend refuses.
// RUN: not tessera-opt --split-input-file --no-output %s 2>&1 | FileCheck %s

tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}there is no attention "sideways"; expected forward, backward, backward_queries or backward_keys
  tile.attend "sideways"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}indices, expected and given: 3 and 2
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}expected q, k, v and o all of bf16 or of f16, l of f32
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>, %l: memref<4x100xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}expected q, k, v and o all of bf16 or of f16, l of f32
  tile.attend "forward"(%q, %k, %v, %o, %l) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>, memref<4x100xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<400x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}dimensions, expected and given: 3 and 2
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<400x64xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x128xbf16>, %v: memref<2x80x128xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}sizes of heads: 64 and 128
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x128xbf16>, memref<2x80x128xbf16>, memref<4x100x64xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x96xbf16>, %k: memref<2x80x96xbf16>, %v: memref<2x80x96xbf16>, %o: memref<4x100x96xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}columns of a head are 96; expected a multiple of 64
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x96xbf16>, memref<2x80x96xbf16>, memref<2x80x96xbf16>, memref<4x100x96xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x192xbf16>, %k: memref<2x80x192xbf16>, %v: memref<2x80x192xbf16>, %o: memref<4x100x192xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}columns of a head are 192; expected 1 to 128
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x192xbf16>, memref<2x80x192xbf16>, memref<2x80x192xbf16>, memref<4x100x192xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}scale is 0; expected more than 0
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.0 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}the buffers and a ring differ in element type
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "none" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}the matrix units only read rings with swizzle "xor"
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}rows of a ring, expected and given: 64 and 128
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<2x128x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x128xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}columns of a ring, expected and given: 64 and 128
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x128xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x48x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}rows of the ring of keys are 48; expected a multiple of 64
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x48x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
module attributes {tessera.target = "cuda:sm_80"} {
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}rings on this target, expected and given: 2 and 3
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x81x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}sizes of keys and of values: 80 and 81
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x81x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x101x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}sizes of queries and of the result: 100 and 101
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x101x64xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x0x64xbf16>, %v: memref<2x0x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}sizes of keys are 0; expected 1 to 1073741824
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x0x64xbf16>, memref<2x0x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x128xbf16>, %k: memref<2x80x128xbf16>, %v: memref<2x80x128xbf16>, %o: memref<4x100x128xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}stages of the ring of results, expected and given: 2 and 1
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x128xbf16>, memref<2x80x128xbf16>, memref<2x80x128xbf16>, memref<4x100x128xbf16>), (!tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x128xbf16>, %k: memref<2x80x128xbf16>, %v: memref<2x80x128xbf16>, %o: memref<4x100x128xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  // CHECK: [[@LINE+2]]:3: error: {{.*}}comes after copies or attention in its program
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x128xbf16>, memref<2x80x128xbf16>, memref<2x80x128xbf16>, memref<4x100x128xbf16>), (!tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x64xbf16>)
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x128xbf16>, memref<2x80x128xbf16>, memref<2x80x128xbf16>, memref<4x100x128xbf16>), (!tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 1152921504606846976 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE-5]]:1: error: {{.*}}warps is 1152921504606846976; expected 4, 8 or 12
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %h: memref<2xi64>, %n: memref<i64>, %s: memref<i64>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}dropout is 0.97, stream 1; expected 0 < dropout <= 0.96875
  tile.attend "forward"(%q, %k, %v, %o, %h, %n, %s) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64, dropout = 0.97 : f64, stream = 1 : i64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>, memref<2xi64>, memref<i64>, memref<i64>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %h: memref<2xi64>, %n: memref<i64>, %s: memref<i64>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}dropout is 0.1, stream -1; expected
  tile.attend "forward"(%q, %k, %v, %o, %h, %n, %s) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64, dropout = 0.1 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>, memref<2xi64>, memref<i64>, memref<i64>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %h: memref<2xi64>, %n: memref<1xi64>, %s: memref<i64>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}buffer 5 holds the dropout of the weights; expected an argument of the kernel, i64 of 0 dimensions
  tile.attend "forward"(%q, %k, %v, %o, %h, %n, %s) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64, dropout = 0.1 : f64, stream = 1 : i64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>, memref<2xi64>, memref<1xi64>, memref<i64>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %h: memref<2xi32>, %n: memref<i64>, %s: memref<i64>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}buffer 4 holds the dropout of the weights; expected an argument of the kernel, i64 of 1 dimensions
  tile.attend "forward"(%q, %k, %v, %o, %h, %n, %s) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64, dropout = 0.1 : f64, stream = 1 : i64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>, memref<2xi32>, memref<i64>, memref<i64>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %h: memref<3xi64>, %n: memref<i64>, %s: memref<i64>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>
  %ro = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}first heads of 3 items; there are 4 heads
  tile.attend "forward"(%q, %k, %v, %o, %h, %n, %s) at [%0, %0, %0] through (%rq, %rk, %ro) {scale = 0.125 : f64, dropout = 0.1 : f64, stream = 1 : i64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>, memref<3xi64>, memref<i64>, memref<i64>), (!tile.shared<2x64x64xbf16>, !tile.shared<4x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<1x192x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<3x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}rows of a warp are 48; expected 16 to 32
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<1x192x64xbf16>, !tile.shared<3x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<1x96x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<3x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}rows of the resident operand are 96; expected a multiple of 64
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<1x96x64xbf16>, !tile.shared<3x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}stages of a ring are 1; expected 2 to 16
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<1x128x64xbf16>, !tile.shared<1x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<3x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}stages of the resident operand, expected and given: 1 and 2
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<2x128x64xbf16>, !tile.shared<3x64x64xbf16>)
  tile.return
}

// -----
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<3x24x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}rows of a ring are 24; expected a multiple of 16
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<1x128x64xbf16>, !tile.shared<3x24x64xbf16>)
  tile.return
}

// -----
module attributes {tessera.target = "cuda:sm_90a"} {
tile.func @attend(%q: memref<4x100x64xbf16>, %k: memref<2x80x64xbf16>, %v: memref<2x80x64xbf16>, %o: memref<4x100x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<1x64x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<4x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}rings on this target, expected and given: 3 and 2
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk) {scale = 0.125 : f64} : (memref<4x100x64xbf16>, memref<2x80x64xbf16>, memref<2x80x64xbf16>, memref<4x100x64xbf16>), (!tile.shared<1x64x64xbf16>, !tile.shared<4x64x64xbf16>)
  tile.return
}
}

// -----
tile.func @attend(%q: memref<600x1000000x64xbf16>, %k: memref<600x80x64xbf16>, %v: memref<600x80x64xbf16>, %o: memref<600x1000000x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<3x64x64xbf16>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}buffer 0 has more than 2^32 chunks of 8 elements
  tile.attend "forward"(%q, %k, %v, %o) at [%0, %0, %0] through (%rq, %rk) {scale = 0.125 : f64} : (memref<600x1000000x64xbf16>, memref<600x80x64xbf16>, memref<600x80x64xbf16>, memref<600x1000000x64xbf16>), (!tile.shared<1x128x64xbf16>, !tile.shared<3x64x64xbf16>)
  tile.return
}
