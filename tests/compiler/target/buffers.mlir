// SPDX-License-Identifier: Apache-2.0
// What code there is for buffers and loops of a kernel; buffers of nothing lie anywhere.
// RUN: tile-code cuda:sm_80 text %s %t
// RUN: tile-code cpu:x86-64-v3 text %s %t
// RUN: sed 's/^  tile.return/  %m = arith.select %c, %x, %y : memref<64xf32>\n&/' %s >%t.mlir && not tile-code cpu:x86-64-v3 text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=SELECT
// RUN: sed 's/iter_args(%v = %z) -> (f32)/iter_args(%v = %x) -> (memref<64xf32>)/; s/yield %v : f32/yield %v : memref<64xf32>/' %s >%t.mlir && not tile-code cuda:sm_80 text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=CARRY
// RUN: sed 's/iter_args(%v = %z) -> (f32)/iter_args(%a0 = %z, %a1 = %z, %a2 = %z, %a3 = %z, %a4 = %z, %a5 = %z, %a6 = %z, %a7 = %z, %a8 = %z, %a9 = %z, %a10 = %z, %a11 = %z, %a12 = %z, %a13 = %z, %a14 = %z, %a15 = %z, %a16 = %z, %a17 = %z, %a18 = %z, %a19 = %z, %a20 = %z, %a21 = %z, %a22 = %z, %a23 = %z, %a24 = %z, %a25 = %z, %a26 = %z, %a27 = %z, %a28 = %z, %a29 = %z, %a30 = %z, %a31 = %z, %a32 = %z, %a33 = %z, %a34 = %z, %a35 = %z, %a36 = %z, %a37 = %z, %a38 = %z, %a39 = %z, %a40 = %z, %a41 = %z, %a42 = %z, %a43 = %z, %a44 = %z, %a45 = %z, %a46 = %z, %a47 = %z, %a48 = %z, %a49 = %z, %a50 = %z, %a51 = %z, %a52 = %z, %a53 = %z, %a54 = %z, %a55 = %z, %a56 = %z, %a57 = %z, %a58 = %z, %a59 = %z, %a60 = %z, %a61 = %z, %a62 = %z, %a63 = %z, %a64 = %z) -> (f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)/; s/yield %v : f32/yield %a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10, %a11, %a12, %a13, %a14, %a15, %a16, %a17, %a18, %a19, %a20, %a21, %a22, %a23, %a24, %a25, %a26, %a27, %a28, %a29, %a30, %a31, %a32, %a33, %a34, %a35, %a36, %a37, %a38, %a39, %a40, %a41, %a42, %a43, %a44, %a45, %a46, %a47, %a48, %a49, %a50, %a51, %a52, %a53, %a54, %a55, %a56, %a57, %a58, %a59, %a60, %a61, %a62, %a63, %a64 : f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32/; s/%q = scf/%q:65 = scf/' %s >%t.mlir && not tile-code cpu:x86-64-v3 text %t.mlir %t 2>&1 | FileCheck %s --check-prefix=MANY
// SELECT: kernel 'k': arith.select passes a buffer on; expected an argument, or the result of an op of tile
// CARRY: kernel 'k': scf.for passes a buffer on
// MANY: kernel 'k': scf.for carries more than 64 values
tile.func @k(%x: memref<64xf32>, %y: memref<64xf32>) grid 1 {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %c = arith.cmpi slt, %0, %1 : index
  %nothing = tile.local : memref<0xf32>
  %q = scf.for %i = %0 to %1 step %1 iter_args(%v = %z) -> (f32) {
    scf.yield %v : f32
  }
  %u = tile.load %x[%0] : memref<64xf32> -> f32
  tile.store %u, %y[%0] : f32, memref<64xf32>
  tile.return
}
