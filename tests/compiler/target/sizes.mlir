// SPDX-License-Identifier: Apache-2.0
// A lane of the machine holds vectors of up to 256 elements; 257 are refused, on a GPU 32 times as many.
// RUN: not tile-code cpu:x86-64-v3 text %s %t 2>&1 | FileCheck %s
// RUN: sed 's/257/256/g' %s >%t.mlir && tile-code cpu:x86-64-v3 text %t.mlir %t
// RUN: sed 's/257/8193/g' %s >%t.mlir && not tile-code cuda:sm_80 text %t.mlir %t 2>&1 | FileCheck %s
// RUN: sed 's/257/8192/g' %s >%t.mlir && tile-code cuda:sm_80 text %t.mlir %t
// Nothing is computed in small floats.
// RUN: sed 's/257/8/g; s/f32/bf16/g; s/%a, %y/%b, %y/; s/^  tile.store/  %b = math.tanh %a : vector<8xbf16>\n&/' %s >%t.mlir && not tile-code cpu:x86-64-v3 text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=SMALL
// SMALL: kernel 'k': math.tanh computes in bf16 or f16; expected f32
// CHECK: kernel 'k': tile.load makes a vector or buffer that is too large
tile.func @k(%x: memref<257xf32>, %y: memref<257xf32>) grid 1 {
  %0 = arith.constant 0 : index
  %a = tile.load %x[%0] : memref<257xf32> -> vector<257xf32>
  tile.store %a, %y[%0] : vector<257xf32>, memref<257xf32>
  tile.return
}
