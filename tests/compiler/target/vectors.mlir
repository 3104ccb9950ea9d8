// SPDX-License-Identifier: Apache-2.0
// A vector of one element is no scalar where there is to be code, nor one of another number of dims a list of elements.
// RUN: tile-code cuda:sm_80 text %s %t
// RUN: tile-code cpu:x86-64-v3 text %s %t
// RUN: sed 's/%v\[0\]/%v[]/' %s >%t.mlir && not tile-code cpu:x86-64-v3 text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=PLACE
// RUN: sed 's/%v\[0\]/%v[%0]/' %s >%t.mlir && not tile-code cuda:sm_80 text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=PLACE
// RUN: sed 's/broadcast %e : f32/broadcast %v : vector<1xf32>/' %s >%t.mlir && not tile-code cpu:x86-64-v3 text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=REPEAT
// RUN: sed 's/dense<0.0> : vector<8xf32>/dense<0.0> : vector<2x4xf32>/' %s >%t.mlir && not tile-code cuda:sm_80 text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=DIMS
// PLACE: kernel 'k': vector.extract takes an element whose position is unknown at build time
// REPEAT: kernel 'k': vector.broadcast repeats a vector; expected a scalar
// DIMS: kernel 'k': arith.constant creates a vector with more than one dimension, or none
tile.func @k(%x: memref<8xf32>, %y: memref<8xf32>) grid 1 {
  %0 = arith.constant 0 : index
  %z = arith.constant dense<0.0> : vector<8xf32>
  %v = tile.load %x[%0] : memref<8xf32> -> vector<1xf32>
  %e = vector.extract %v[0] : f32 from vector<1xf32>
  %b = vector.broadcast %e : f32 to vector<8xf32>
  tile.store %b, %y[%0] : vector<8xf32>, memref<8xf32>
  tile.return
}
