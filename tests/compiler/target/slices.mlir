// SPDX-License-Identifier: Apache-2.0
// Parts of vectors as large as a warp holds: the registers of the second half alone are loaded, each from its position.
// RUN: tile-code cuda:sm_80 text %s %t && FileCheck %s --input-file=%t
// RUN: sed 's/8192/1024/g; s/4096/512/g' %s > %t.mlir && tile-code cuda:sm_80 text %t.mlir %t && FileCheck %s --check-prefix=LESS --input-file=%t

// CHECK-LABEL: .entry k(
// CHECK-NOT: ld.global{{.*}}+16256]
// CHECK: ld.global{{.*}}+16384]
// CHECK: ld.global{{.*}}+32640]
// CHECK: ret;
// LESS-LABEL: .entry k(
// LESS-NOT: ld.global{{.*}}+1920]
// LESS: ld.global{{.*}}+2048]
// LESS: ld.global{{.*}}+3968]
// LESS: ret;
tile.func @k(%x: memref<8192xf32>, %y: memref<4096xf32>) grid 1 {
  %0 = arith.constant 0 : index
  %a = tile.load %x[%0] : memref<8192xf32> -> vector<8192xf32>
  %b = vector.extract_strided_slice %a {offsets = [4096], sizes = [4096], strides = [1]} : vector<8192xf32> to vector<4096xf32>
  tile.store %b, %y[%0] : vector<4096xf32>, memref<4096xf32>
  tile.return
}
