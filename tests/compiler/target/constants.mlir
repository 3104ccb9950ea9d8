// SPDX-License-Identifier: Apache-2.0
// Integers that each lane has its own of, over the whole range of their types.
// RUN: tile-code cuda:sm_80 text %s %t && FileCheck %s --input-file=%t

// CHECK-DAG: .b8 lanes_0_0_2_3_{{.*}}_1f[128]
// CHECK-DAG: .b8 lanes_0_80000000_2_3_{{.*}}_1f[128]
// CHECK-DAG: .b8 lanes_80000000_7fffffff_2_3_{{.*}}_1f[128]
// CHECK: .entry constants(
// Two tables of 32 bits each, joined.
// CHECK: lanes_0_0_2_3_
// CHECK: ld.global.nc.b32 [[LOW:%rd[0-9]+]]
// CHECK: lanes_0_80000000_2_3_
// CHECK: ld.global.nc.b32 [[HIGH:%rd[0-9]+]]
// CHECK: shl.b64 [[UPPER:%rd[0-9]+]], [[HIGH]], 32;
// CHECK: or.b64 [[BOTH:%rd[0-9]+]], [[UPPER]], [[LOW]];
// CHECK: st.global.b64 {{.*}}, [[BOTH]];
tile.func @constants(%x: memref<32xi64>, %y: memref<32xi32>) grid 1 {
  %0 = arith.constant 0 : index
  %a = arith.constant dense<[0, -9223372036854775808, 8589934594, 12884901891, 17179869188, 21474836485, 25769803782, 30064771079, 34359738376, 38654705673, 42949672970, 47244640267, 51539607564, 55834574861, 60129542158, 64424509455, 68719476752, 73014444049, 77309411346, 81604378643, 85899345940, 90194313237, 94489280534, 98784247831, 103079215128, 107374182425, 111669149722, 115964117019, 120259084316, 124554051613, 128849018910, 133143986207]> : vector<32xi64>
  tile.store %a, %x[%0] : vector<32xi64>, memref<32xi64>
  %b = arith.constant dense<[-2147483648, 2147483647, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]> : vector<32xi32>
  tile.store %b, %y[%0] : vector<32xi32>, memref<32xi32>
  tile.return
}
