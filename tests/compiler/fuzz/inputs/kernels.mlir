// SPDX-License-Identifier: Apache-2.0
// Kernels that are lowered as they stand, for ops that the other tests have only in kernels of many.
tile.func @view(%x: memref<4x16xf32>, %y: memref<64xf32>) grid 1 attributes {outputs = 1 : i64} {
  %0 = arith.constant 0 : index
  %v = tile.view %x : memref<4x16xf32> -> memref<64xf32>
  tile.prefetch %v[%0] : memref<64xf32>
  %a = tile.load %v[%0] : memref<64xf32> -> vector<8xf32>
  %b = tile.gelu %a : vector<8xf32>
  tile.store %b, %y[%0] : vector<8xf32>, memref<64xf32>
  tile.return
}
// -----
tile.func @until_aligned(%x: memref<64xf32>, %y: memref<64xf32>) grid 1 attributes {outputs = 1 : i64} {
  %0 = arith.constant 0 : index
  %u = tile.until_aligned %y[%0] : memref<64xf32>
  %a = tile.load %x[%u] : memref<64xf32> -> f32
  tile.store %a, %y[%u] : f32, memref<64xf32>
  tile.return
}
// -----
tile.func @check_index(%x: memref<4xi64>, %y: memref<64xf32>) grid 1 attributes {outputs = 1 : i64, faults} {
  %0 = arith.constant 0 : index
  %z = arith.constant 1.0 : f32
  %i = tile.load %x[%0] : memref<4xi64> -> i64
  %ok = tile.check_index %i below 64 of 0[%0]
  %n = arith.index_cast %i : i64 to index
  %at = arith.select %ok, %n, %0 : index
  tile.store %z, %y[%at] : f32, memref<64xf32>
  tile.return
}
// -----
module attributes {tessera.target = "cpu:x86-64-v4-bf16"} {
  tile.func @dot(%x: memref<32xbf16>, %y: memref<16xf32>) grid 1 attributes {outputs = 1 : i64} {
    %0 = arith.constant 0 : index
    %a = tile.load %x[%0] : memref<32xbf16> -> vector<32xbf16>
    %s = tile.load %y[%0] : memref<16xf32> -> vector<16xf32>
    %d = tile.dot %a, %a, %s : vector<32xbf16>, vector<32xbf16>, vector<16xf32>
    tile.store %d, %y[%0] : vector<16xf32>, memref<16xf32>
    tile.return
  }
}
