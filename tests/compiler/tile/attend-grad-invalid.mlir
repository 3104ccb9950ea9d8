// SPDX-License-Identifier: Apache-2.0
// What the rule of tile.attend "backward" refuses.
// RUN: not tessera-opt --split-input-file --no-output %s 2>&1 | FileCheck %s
tile.func @gradient(%q: memref<4x512x128xbf16>, %k: memref<2x512x128xbf16>, %v: memref<2x512x128xbf16>, %g: memref<4x512x128xbf16>,
                    %l: memref<4x512xf32>, %t: memref<4x512xf32>, %n: memref<4x8xi32>, %s: memref<4x512x128xf32>,
                    %dk: memref<2x512x128xbf16>, %dv: memref<2x512x128xbf16>) grid 8 warps 4 attributes {outputs = 3 : i64} {
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %4 = arith.constant 4 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %group = arith.divui %p, %4 : index
  %i = arith.remui %p, %4 : index
  %tile = arith.subi %3, %i : index
  %head = arith.muli %group, %2 : index
  %row = arith.muli %tile, %128 : index
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rv = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rg = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rs = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xf32>
  %rr = tile.alloc_shared swizzle = "none" : !tile.shared<2x2x64xf32>
  // CHECK: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}warps, expected and given: 8 and 4
  tile.attend "backward"(%q, %k, %v, %g, %l, %t, %n, %s, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {causal, scale = 0.125 : f64}
      : (memref<4x512x128xbf16>, memref<2x512x128xbf16>, memref<2x512x128xbf16>, memref<4x512x128xbf16>, memref<4x512xf32>, memref<4x512xf32>, memref<4x8xi32>, memref<4x512x128xf32>, memref<2x512x128xbf16>, memref<2x512x128xbf16>),
        (!tile.shared<1x128x128xbf16>, !tile.shared<1x128x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x128x64xbf16>, !tile.shared<2x64x128xf32>, !tile.shared<2x2x64xf32>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x512x128xbf16>, %k: memref<2x512x128xbf16>, %v: memref<2x512x128xbf16>, %g: memref<4x512x128xbf16>,
                    %l: memref<4x512xf32>, %t: memref<4x512xf32>, %n: memref<4x8xi32>, %s: memref<4x512x128xf32>,
                    %dk: memref<2x512x128xbf16>, %dv: memref<2x512x128xbf16>) grid 8 warps 8 attributes {outputs = 3 : i64} {
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %4 = arith.constant 4 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %group = arith.divui %p, %4 : index
  %i = arith.remui %p, %4 : index
  %tile = arith.subi %3, %i : index
  %head = arith.muli %group, %2 : index
  %row = arith.muli %tile, %128 : index
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rv = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rg = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rs = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xf32>
  %rr = tile.alloc_shared swizzle = "none" : !tile.shared<2x2x64xf32>
  // CHECK: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}buffers, expected and given: 10 and 9
  tile.attend "backward"(%q, %k, %v, %g, %l, %t, %s, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {causal, scale = 0.125 : f64}
      : (memref<4x512x128xbf16>, memref<2x512x128xbf16>, memref<2x512x128xbf16>, memref<4x512x128xbf16>, memref<4x512xf32>, memref<4x512xf32>, memref<4x512x128xf32>, memref<2x512x128xbf16>, memref<2x512x128xbf16>),
        (!tile.shared<1x128x128xbf16>, !tile.shared<1x128x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x128x64xbf16>, !tile.shared<2x64x128xf32>, !tile.shared<2x2x64xf32>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x576x128xbf16>, %k: memref<2x576x128xbf16>, %v: memref<2x576x128xbf16>, %g: memref<4x576x128xbf16>,
                    %l: memref<4x576xf32>, %t: memref<4x576xf32>, %n: memref<4x9xi32>, %s: memref<4x576x128xf32>,
                    %dk: memref<2x576x128xbf16>, %dv: memref<2x576x128xbf16>) grid 8 warps 8 attributes {outputs = 3 : i64} {
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %4 = arith.constant 4 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %group = arith.divui %p, %4 : index
  %i = arith.remui %p, %4 : index
  %tile = arith.subi %3, %i : index
  %head = arith.muli %group, %2 : index
  %row = arith.muli %tile, %128 : index
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rv = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rg = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rs = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xf32>
  %rr = tile.alloc_shared swizzle = "none" : !tile.shared<2x2x64xf32>
  // CHECK: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}queries are 576; expected a multiple of 128
  tile.attend "backward"(%q, %k, %v, %g, %l, %t, %n, %s, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {causal, scale = 0.125 : f64}
      : (memref<4x576x128xbf16>, memref<2x576x128xbf16>, memref<2x576x128xbf16>, memref<4x576x128xbf16>, memref<4x576xf32>, memref<4x576xf32>, memref<4x9xi32>, memref<4x576x128xf32>, memref<2x576x128xbf16>, memref<2x576x128xbf16>),
        (!tile.shared<1x128x128xbf16>, !tile.shared<1x128x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x128x64xbf16>, !tile.shared<2x64x128xf32>, !tile.shared<2x2x64xf32>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x512x128xbf16>, %k: memref<2x512x128xbf16>, %v: memref<2x512x128xbf16>, %g: memref<4x512x128xbf16>,
                    %l: memref<4x512xf32>, %t: memref<4x512xf32>, %n: memref<4x9xi32>, %s: memref<4x512x128xf32>,
                    %dk: memref<2x512x128xbf16>, %dv: memref<2x512x128xbf16>) grid 8 warps 8 attributes {outputs = 3 : i64} {
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %4 = arith.constant 4 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %group = arith.divui %p, %4 : index
  %i = arith.remui %p, %4 : index
  %tile = arith.subi %3, %i : index
  %head = arith.muli %group, %2 : index
  %row = arith.muli %tile, %128 : index
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rv = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rg = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rs = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xf32>
  %rr = tile.alloc_shared swizzle = "none" : !tile.shared<2x2x64xf32>
  // CHECK: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}sizes of a buffer, expected and given: 8 and 9
  tile.attend "backward"(%q, %k, %v, %g, %l, %t, %n, %s, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {causal, scale = 0.125 : f64}
      : (memref<4x512x128xbf16>, memref<2x512x128xbf16>, memref<2x512x128xbf16>, memref<4x512x128xbf16>, memref<4x512xf32>, memref<4x512xf32>, memref<4x9xi32>, memref<4x512x128xf32>, memref<2x512x128xbf16>, memref<2x512x128xbf16>),
        (!tile.shared<1x128x128xbf16>, !tile.shared<1x128x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x128x64xbf16>, !tile.shared<2x64x128xf32>, !tile.shared<2x2x64xf32>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x512x128xbf16>, %k: memref<3x512x128xbf16>, %v: memref<3x512x128xbf16>, %g: memref<4x512x128xbf16>,
                    %l: memref<4x512xf32>, %t: memref<4x512xf32>, %n: memref<4x8xi32>, %s: memref<4x512x128xf32>,
                    %dk: memref<3x512x128xbf16>, %dv: memref<3x512x128xbf16>) grid 8 warps 8 attributes {outputs = 3 : i64} {
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %4 = arith.constant 4 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %group = arith.divui %p, %4 : index
  %i = arith.remui %p, %4 : index
  %tile = arith.subi %3, %i : index
  %head = arith.muli %group, %2 : index
  %row = arith.muli %tile, %128 : index
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rv = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rg = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rs = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xf32>
  %rr = tile.alloc_shared swizzle = "none" : !tile.shared<2x2x64xf32>
  // CHECK: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}heads of queries are 4; expected a multiple of 3
  tile.attend "backward"(%q, %k, %v, %g, %l, %t, %n, %s, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {causal, scale = 0.125 : f64}
      : (memref<4x512x128xbf16>, memref<3x512x128xbf16>, memref<3x512x128xbf16>, memref<4x512x128xbf16>, memref<4x512xf32>, memref<4x512xf32>, memref<4x8xi32>, memref<4x512x128xf32>, memref<3x512x128xbf16>, memref<3x512x128xbf16>),
        (!tile.shared<1x128x128xbf16>, !tile.shared<1x128x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x128x64xbf16>, !tile.shared<2x64x128xf32>, !tile.shared<2x2x64xf32>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x512x128xbf16>, %k: memref<2x512x128xbf16>, %v: memref<2x512x128xbf16>, %g: memref<4x512x128xbf16>,
                    %l: memref<4x512xf32>, %t: memref<4x512xf32>, %n: memref<4x8xi32>, %s: memref<4x512x128xi32>,
                    %dk: memref<2x512x128xbf16>, %dv: memref<2x512x128xbf16>) grid 8 warps 8 attributes {outputs = 3 : i64} {
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %4 = arith.constant 4 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %group = arith.divui %p, %4 : index
  %i = arith.remui %p, %4 : index
  %tile = arith.subi %3, %i : index
  %head = arith.muli %group, %2 : index
  %row = arith.muli %tile, %128 : index
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rv = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rg = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rs = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xf32>
  %rr = tile.alloc_shared swizzle = "none" : !tile.shared<2x2x64xf32>
  // CHECK: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}buffer 7 has elements of another type; expected f32
  tile.attend "backward"(%q, %k, %v, %g, %l, %t, %n, %s, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {causal, scale = 0.125 : f64}
      : (memref<4x512x128xbf16>, memref<2x512x128xbf16>, memref<2x512x128xbf16>, memref<4x512x128xbf16>, memref<4x512xf32>, memref<4x512xf32>, memref<4x8xi32>, memref<4x512x128xi32>, memref<2x512x128xbf16>, memref<2x512x128xbf16>),
        (!tile.shared<1x128x128xbf16>, !tile.shared<1x128x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x128x64xbf16>, !tile.shared<2x64x128xf32>, !tile.shared<2x2x64xf32>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x512x128xbf16>, %k: memref<2x512x128xbf16>, %v: memref<2x512x128xbf16>, %g: memref<4x512x128xbf16>,
                    %l: memref<4x512xf32>, %t: memref<4x512xf32>, %n: memref<4x8xf32>, %s: memref<4x512x128xf32>,
                    %dk: memref<2x512x128xbf16>, %dv: memref<2x512x128xbf16>) grid 8 warps 8 attributes {outputs = 3 : i64} {
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %4 = arith.constant 4 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %group = arith.divui %p, %4 : index
  %i = arith.remui %p, %4 : index
  %tile = arith.subi %3, %i : index
  %head = arith.muli %group, %2 : index
  %row = arith.muli %tile, %128 : index
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rv = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rg = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rs = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xf32>
  %rr = tile.alloc_shared swizzle = "none" : !tile.shared<2x2x64xf32>
  // CHECK: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}buffer 6 has elements of another type; expected i32
  tile.attend "backward"(%q, %k, %v, %g, %l, %t, %n, %s, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {causal, scale = 0.125 : f64}
      : (memref<4x512x128xbf16>, memref<2x512x128xbf16>, memref<2x512x128xbf16>, memref<4x512x128xbf16>, memref<4x512xf32>, memref<4x512xf32>, memref<4x8xf32>, memref<4x512x128xf32>, memref<2x512x128xbf16>, memref<2x512x128xbf16>),
        (!tile.shared<1x128x128xbf16>, !tile.shared<1x128x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x128x64xbf16>, !tile.shared<2x64x128xf32>, !tile.shared<2x2x64xf32>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x512x128xbf16>, %k: memref<2x512x128xbf16>, %v: memref<2x512x128xbf16>, %g: memref<4x512x128xbf16>,
                    %l: memref<4x512xf32>, %t: memref<4x512xf32>, %n: memref<4x8xi32>, %s: memref<4x512x128xf32>,
                    %dk: memref<2x512x128xbf16>, %dv: memref<2x512x128xbf16>) grid 8 warps 8 attributes {outputs = 3 : i64} {
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %4 = arith.constant 4 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %group = arith.divui %p, %4 : index
  %i = arith.remui %p, %4 : index
  %tile = arith.subi %3, %i : index
  %head = arith.muli %group, %2 : index
  %row = arith.muli %tile, %128 : index
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rv = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rg = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rs = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xf32>
  %rr = tile.alloc_shared swizzle = "xor" : !tile.shared<2x8x64xf32>
  // CHECK: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}expected a ring of swizzle "none"
  tile.attend "backward"(%q, %k, %v, %g, %l, %t, %n, %s, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {causal, scale = 0.125 : f64}
      : (memref<4x512x128xbf16>, memref<2x512x128xbf16>, memref<2x512x128xbf16>, memref<4x512x128xbf16>, memref<4x512xf32>, memref<4x512xf32>, memref<4x8xi32>, memref<4x512x128xf32>, memref<2x512x128xbf16>, memref<2x512x128xbf16>),
        (!tile.shared<1x128x128xbf16>, !tile.shared<1x128x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x128x64xbf16>, !tile.shared<2x64x128xf32>, !tile.shared<2x8x64xf32>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x512x128xbf16>, %k: memref<2x512x128xbf16>, %v: memref<2x512x128xbf16>, %g: memref<4x512x128xbf16>,
                    %l: memref<4x512xf32>, %t: memref<4x512xf32>, %n: memref<4x8xi32>, %s: memref<4x512x128xf32>,
                    %dk: memref<2x512x128xbf16>, %dv: memref<2x512x128xbf16>) grid 8 warps 8 attributes {outputs = 3 : i64} {
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %4 = arith.constant 4 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %group = arith.divui %p, %4 : index
  %i = arith.remui %p, %4 : index
  %tile = arith.subi %3, %i : index
  %head = arith.muli %group, %2 : index
  %row = arith.muli %tile, %128 : index
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rv = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rg = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rs = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x128xf32>
  %rr = tile.alloc_shared swizzle = "none" : !tile.shared<2x2x64xf32>
  // CHECK: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}rows of a ring, expected and given: 64 and 128
  tile.attend "backward"(%q, %k, %v, %g, %l, %t, %n, %s, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {causal, scale = 0.125 : f64}
      : (memref<4x512x128xbf16>, memref<2x512x128xbf16>, memref<2x512x128xbf16>, memref<4x512x128xbf16>, memref<4x512xf32>, memref<4x512xf32>, memref<4x8xi32>, memref<4x512x128xf32>, memref<2x512x128xbf16>, memref<2x512x128xbf16>),
        (!tile.shared<1x128x128xbf16>, !tile.shared<1x128x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x128x64xbf16>, !tile.shared<2x128x128xf32>, !tile.shared<2x2x64xf32>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x512x128xbf16>, %k: memref<2x512x128xbf16>, %v: memref<2x512x128xbf16>, %g: memref<4x512x128xbf16>,
                    %l: memref<4x512xf32>, %t: memref<4x512xf32>, %n: memref<4x8xi32>, %s: memref<4x512x128xf32>,
                    %dk: memref<2x512x128xbf16>, %dv: memref<2x512x128xbf16>) grid 8 warps 8 attributes {outputs = 3 : i64} {
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %4 = arith.constant 4 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %group = arith.divui %p, %4 : index
  %i = arith.remui %p, %4 : index
  %tile = arith.subi %3, %i : index
  %head = arith.muli %group, %2 : index
  %row = arith.muli %tile, %128 : index
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rv = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rg = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rs = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xf32>
  %rr = tile.alloc_shared swizzle = "none" : !tile.shared<2x2x64xf32>
  // CHECK: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}scale is 0; expected more than 0
  tile.attend "backward"(%q, %k, %v, %g, %l, %t, %n, %s, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {causal, scale = 0.0 : f64}
      : (memref<4x512x128xbf16>, memref<2x512x128xbf16>, memref<2x512x128xbf16>, memref<4x512x128xbf16>, memref<4x512xf32>, memref<4x512xf32>, memref<4x8xi32>, memref<4x512x128xf32>, memref<2x512x128xbf16>, memref<2x512x128xbf16>),
        (!tile.shared<1x128x128xbf16>, !tile.shared<1x128x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x128x64xbf16>, !tile.shared<2x64x128xf32>, !tile.shared<2x2x64xf32>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x512x128xbf16>, %k: memref<2x512x128xbf16>, %v: memref<2x512x128xbf16>, %g: memref<4x512x128xbf16>,
                    %l: memref<4x512xf32>, %t: memref<4x512xf32>, %n: memref<4x8xi32>, %s: memref<4x512x128xf32>,
                    %dk: memref<2x512x128xbf16>, %dv: memref<2x512x128xbf16>) grid 8 warps 8 attributes {outputs = 3 : i64} {
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %4 = arith.constant 4 : index
  %128 = arith.constant 128 : index
  %p = tile.program_id
  %group = arith.divui %p, %4 : index
  %i = arith.remui %p, %4 : index
  %tile = arith.subi %3, %i : index
  %head = arith.muli %group, %2 : index
  %row = arith.muli %tile, %128 : index
  %rk = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rv = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x128xbf16>
  %rq = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rg = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %rs = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x128xf32>
  %rr = tile.alloc_shared swizzle = "none" : !tile.shared<2x2x64xf32>
  // CHECK: [[@LINE+2]]:{{[0-9]+}}: error: {{.*}}is in a loop; expected it in the block of the tile.func
  scf.for %x = %2 to %3 step %2 {
  tile.attend "backward"(%q, %k, %v, %g, %l, %t, %n, %s, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {causal, scale = 0.125 : f64}
      : (memref<4x512x128xbf16>, memref<2x512x128xbf16>, memref<2x512x128xbf16>, memref<4x512x128xbf16>, memref<4x512xf32>, memref<4x512xf32>, memref<4x8xi32>, memref<4x512x128xf32>, memref<2x512x128xbf16>, memref<2x512x128xbf16>),
        (!tile.shared<1x128x128xbf16>, !tile.shared<1x128x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x64x128xbf16>, !tile.shared<2x128x64xbf16>, !tile.shared<2x64x128xf32>, !tile.shared<2x2x64xf32>)
  }
  tile.return
}

// -----
module attributes {tessera.target = "cuda:sm_90a"} {
tile.func @gradient(%q: memref<4x256x64xbf16>, %k: memref<2x256x64xbf16>, %v: memref<2x256x64xbf16>, %g: memref<4x256x64xbf16>, %l: memref<4x256xf32>, %t: memref<4x256xf32>, %dk: memref<2x256x64xbf16>, %dv: memref<2x256x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %r0 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %r1 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %r2 = tile.alloc_shared swizzle = "xor" : !tile.shared<3x32x64xbf16>
  %r3 = tile.alloc_shared swizzle = "xor" : !tile.shared<3x32x64xbf16>
  %r4 = tile.alloc_shared swizzle = "none" : !tile.shared<3x2x32xf32>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}there is no machine code for "backward_keys" on 'cuda:sm_90a'; expected "backward"
  tile.attend "backward_keys"(%q, %k, %v, %g, %l, %t, %dk, %dv) at [%0, %0, %0] through (%r0, %r1, %r2, %r3, %r4) {scale = 0.125 : f64} : (memref<4x256x64xbf16>, memref<2x256x64xbf16>, memref<2x256x64xbf16>, memref<4x256x64xbf16>, memref<4x256xf32>, memref<4x256xf32>, memref<2x256x64xbf16>, memref<2x256x64xbf16>), (!tile.shared<1x128x64xbf16>, !tile.shared<1x128x64xbf16>, !tile.shared<3x32x64xbf16>, !tile.shared<3x32x64xbf16>, !tile.shared<3x2x32xf32>)
  tile.return
}
}

// -----
tile.func @gradient(%q: memref<4x256x64xbf16>, %k: memref<2x256x64xbf16>, %v: memref<2x256x64xbf16>, %g: memref<4x256x64xbf16>, %l: memref<4x256xf32>, %t: memref<4x256xf32>, %dk: memref<2x256x64xbf16>, %dv: memref<2x256x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %r0 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %r1 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %r2 = tile.alloc_shared swizzle = "xor" : !tile.shared<3x48x64xbf16>
  %r3 = tile.alloc_shared swizzle = "xor" : !tile.shared<3x48x64xbf16>
  %r4 = tile.alloc_shared swizzle = "none" : !tile.shared<3x2x48xf32>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}rows of the resident operand are 128; expected a multiple of 48
  tile.attend "backward_keys"(%q, %k, %v, %g, %l, %t, %dk, %dv) at [%0, %0, %0] through (%r0, %r1, %r2, %r3, %r4) {scale = 0.125 : f64} : (memref<4x256x64xbf16>, memref<2x256x64xbf16>, memref<2x256x64xbf16>, memref<4x256x64xbf16>, memref<4x256xf32>, memref<4x256xf32>, memref<2x256x64xbf16>, memref<2x256x64xbf16>), (!tile.shared<1x128x64xbf16>, !tile.shared<1x128x64xbf16>, !tile.shared<3x48x64xbf16>, !tile.shared<3x48x64xbf16>, !tile.shared<3x2x48xf32>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x256x64xbf16>, %k: memref<2x256x64xbf16>, %v: memref<2x256x64xbf16>, %g: memref<4x256x64xbf16>, %l: memref<4x256xf32>, %t: memref<4x256xf32>, %dk: memref<2x256x64xbf16>, %dv: memref<2x256x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %r0 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %r1 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %r2 = tile.alloc_shared swizzle = "xor" : !tile.shared<3x32x64xbf16>
  %r3 = tile.alloc_shared swizzle = "xor" : !tile.shared<3x32x64xbf16>
  %r4 = tile.alloc_shared swizzle = "none" : !tile.shared<3x4x32xf32>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}rows of a ring, expected and given: 2 and 4
  tile.attend "backward_keys"(%q, %k, %v, %g, %l, %t, %dk, %dv) at [%0, %0, %0] through (%r0, %r1, %r2, %r3, %r4) {scale = 0.125 : f64} : (memref<4x256x64xbf16>, memref<2x256x64xbf16>, memref<2x256x64xbf16>, memref<4x256x64xbf16>, memref<4x256xf32>, memref<4x256xf32>, memref<2x256x64xbf16>, memref<2x256x64xbf16>), (!tile.shared<1x128x64xbf16>, !tile.shared<1x128x64xbf16>, !tile.shared<3x32x64xbf16>, !tile.shared<3x32x64xbf16>, !tile.shared<3x4x32xf32>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x256x64xbf16>, %k: memref<2x256x64xbf16>, %v: memref<2x256x64xbf16>, %g: memref<4x256x64xbf16>, %l: memref<4x256xf32>, %t: memref<4x256xf32>, %dq: memref<4x256x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %r0 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %r1 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %r2 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x32x64xbf16>
  %r3 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x32x64xbf16>
  %r4 = tile.alloc_shared swizzle = "none" : !tile.shared<3x2x32xf32>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}stages of a ring are 1; expected 2 to 16
  tile.attend "backward_queries"(%q, %k, %v, %g, %l, %t, %dq) at [%0, %0, %0] through (%r0, %r1, %r2, %r3) {scale = 0.125 : f64} : (memref<4x256x64xbf16>, memref<2x256x64xbf16>, memref<2x256x64xbf16>, memref<4x256x64xbf16>, memref<4x256xf32>, memref<4x256xf32>, memref<4x256x64xbf16>), (!tile.shared<1x128x64xbf16>, !tile.shared<1x128x64xbf16>, !tile.shared<1x32x64xbf16>, !tile.shared<1x32x64xbf16>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x256x64xbf16>, %k: memref<2x256x64xbf16>, %v: memref<2x256x64xbf16>, %g: memref<4x256x64xbf16>, %l: memref<4x256xf32>, %t: memref<4x256xf32>, %dq: memref<2x256x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %r0 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %r1 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %r2 = tile.alloc_shared swizzle = "xor" : !tile.shared<3x32x64xbf16>
  %r3 = tile.alloc_shared swizzle = "xor" : !tile.shared<3x32x64xbf16>
  %r4 = tile.alloc_shared swizzle = "none" : !tile.shared<3x2x32xf32>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}sizes of a buffer, expected and given: 4 and 2
  tile.attend "backward_queries"(%q, %k, %v, %g, %l, %t, %dq) at [%0, %0, %0] through (%r0, %r1, %r2, %r3) {scale = 0.125 : f64} : (memref<4x256x64xbf16>, memref<2x256x64xbf16>, memref<2x256x64xbf16>, memref<4x256x64xbf16>, memref<4x256xf32>, memref<4x256xf32>, memref<2x256x64xbf16>), (!tile.shared<1x128x64xbf16>, !tile.shared<1x128x64xbf16>, !tile.shared<3x32x64xbf16>, !tile.shared<3x32x64xbf16>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x256x64xbf16>, %k: memref<2x256x64xbf16>, %v: memref<2x256x64xbf16>, %g: memref<4x256x64xbf16>, %l: memref<4x256xf32>, %t: memref<4x256xf32>, %dk: memref<2x256x64xbf16>, %dv: memref<2x256x64xbf16>) grid 1 warps 8 {
  %0 = arith.constant 0 : index
  %r0 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %r1 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %r2 = tile.alloc_shared swizzle = "xor" : !tile.shared<2x32x64xbf16>
  %r3 = tile.alloc_shared swizzle = "xor" : !tile.shared<2x32x64xbf16>
  %r4 = tile.alloc_shared swizzle = "none" : !tile.shared<2x2x32xf32>
  %r5 = tile.alloc_shared swizzle = "none" : !tile.shared<2x128x32xf32>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}stages of a step are 2; expected 3 to 16
  tile.attend "backward_keys"(%q, %k, %v, %g, %l, %t, %dk, %dv) at [%0, %0, %0] through (%r0, %r1, %r2, %r3, %r4, %r5) {scale = 0.125 : f64} : (memref<4x256x64xbf16>, memref<2x256x64xbf16>, memref<2x256x64xbf16>, memref<4x256x64xbf16>, memref<4x256xf32>, memref<4x256xf32>, memref<2x256x64xbf16>, memref<2x256x64xbf16>), (!tile.shared<1x128x64xbf16>, !tile.shared<1x128x64xbf16>, !tile.shared<2x32x64xbf16>, !tile.shared<2x32x64xbf16>, !tile.shared<2x2x32xf32>, !tile.shared<2x128x32xf32>)
  tile.return
}

// -----
tile.func @gradient(%q: memref<4x256x64xbf16>, %k: memref<2x256x64xbf16>, %v: memref<2x256x64xbf16>, %g: memref<4x256x64xbf16>, %l: memref<4x256xf32>, %t: memref<4x256xf32>, %dk: memref<2x256x64xbf16>, %dv: memref<2x256x64xbf16>) grid 1 warps 8 {
  %0 = arith.constant 0 : index
  %r0 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %r1 = tile.alloc_shared swizzle = "xor" : !tile.shared<1x128x64xbf16>
  %r2 = tile.alloc_shared swizzle = "xor" : !tile.shared<3x32x64xbf16>
  %r3 = tile.alloc_shared swizzle = "xor" : !tile.shared<3x32x64xbf16>
  %r4 = tile.alloc_shared swizzle = "none" : !tile.shared<3x2x32xf32>
  %r5 = tile.alloc_shared swizzle = "none" : !tile.shared<2x64x32xf32>
  // CHECK: [[@LINE+1]]:3: error: {{.*}}rows of a ring, expected and given: 128 and 64
  tile.attend "backward_keys"(%q, %k, %v, %g, %l, %t, %dk, %dv) at [%0, %0, %0] through (%r0, %r1, %r2, %r3, %r4, %r5) {scale = 0.125 : f64} : (memref<4x256x64xbf16>, memref<2x256x64xbf16>, memref<2x256x64xbf16>, memref<4x256x64xbf16>, memref<4x256xf32>, memref<4x256xf32>, memref<2x256x64xbf16>, memref<2x256x64xbf16>), (!tile.shared<1x128x64xbf16>, !tile.shared<1x128x64xbf16>, !tile.shared<3x32x64xbf16>, !tile.shared<3x32x64xbf16>, !tile.shared<3x2x32xf32>, !tile.shared<2x64x32xf32>)
  tile.return
}
