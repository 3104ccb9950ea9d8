// SPDX-License-Identifier: Apache-2.0
tile.func @k(%x: memref<64xf32>) grid 1 {
  %0 = arith.constant 0 : index
  %a = tile.load %x[%0] : memref<64xf32> -> vector<64xf32>
  %b = tile.butterfly %a, 32 : vector<64xf32>
  tile.return
}
