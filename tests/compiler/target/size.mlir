// SPDX-License-Identifier: Apache-2.0
// The size of an open dim, as a kernel gets it.
// RUN: tessera-opt %s | FileCheck %s

// CHECK: %[[N:.*]] = tessera_target.size 0 : memref<i64>
// CHECK: tessera_target.launch @k(%{{.*}}, %[[N]]) writes
tessera_target.func @f workspace 0 {
  %x = tessera_target.input 0 {tessera_target.times = 1 : i64} : memref<8x4xf32>
  %n = tessera_target.size 0 : memref<i64>
  %y = tessera_target.output 0 {tessera_target.times = 1 : i64} : memref<8x4xf32>
  tessera_target.launch @k(%x, %n) writes(%y) : (memref<8x4xf32>, memref<i64>) -> memref<8x4xf32>
}
tessera_target.kernel @k : (memref<8x4xf32>, memref<i64>) -> memref<8x4xf32> grid 1
