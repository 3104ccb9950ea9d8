// SPDX-License-Identifier: Apache-2.0
// The segment of a program is found by comparisons; its buffers are the kernel's arguments, of global memory.
// RUN: tile-code cuda:sm_90a text %s %t && FileCheck %s --input-file=%t

// CHECK-LABEL: .entry k(
// CHECK-DAG: setp.{{.*}}, 3;
// CHECK-DAG: setp.{{.*}}, 5;
// CHECK-NOT: ld.b32
// CHECK: ld.global.b32
// CHECK-NOT: st.b32
// CHECK: st.global.b32
// CHECK: ret;
tile.func @k(%a: memref<96xf32>, %b: memref<96xf32>, %c: memref<8x8xf32>, %d: memref<64xf32>, %e: memref<32xf32>, %f: memref<32xf32>) grid 6
    attributes {outputs = 3 : i64} {
  %p = tile.program_id
  %number, %size, %x, %y = tile.segment %p of %a, %b, %c, %d, %e, %f {first = [0, 3, 5]}
      : memref<96xf32>, memref<96xf32>, memref<8x8xf32>, memref<64xf32>, memref<32xf32>, memref<32xf32> -> memref<96xf32>, memref<96xf32>
  %c32 = arith.constant 32 : index
  %at = arith.muli %number, %c32 : index
  %v = tile.load %x[%at] : memref<96xf32> -> vector<32xf32>
  tile.store %v, %y[%at] : vector<32xf32>, memref<96xf32>
  tile.return
}
