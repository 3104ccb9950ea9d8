// SPDX-License-Identifier: Apache-2.0
module attributes {tessera.target = "cuda:sm_90a"} {
  tile.func @k(%x: memref<32xbf16>, %y: memref<16xf32>) grid 1 {
    %0 = arith.constant 0 : index
    %a = tile.load %x[%0] : memref<32xbf16> -> vector<32xbf16>
    %s = tile.load %y[%0] : memref<16xf32> -> vector<16xf32>
    %d = tile.dot %a, %a, %s : vector<32xbf16>, vector<32xbf16>, vector<16xf32>
    tile.return
  }
}
