// SPDX-License-Identifier: Apache-2.0
tile.func @k(%x: memref<64xf32>) grid 1 {
  %0 = arith.constant 0 : index
  %m = vector.create_mask %0 : vector<32xi1>
  %v = tile.vote "most" %m : vector<32xi1> -> i1
  tile.return
}
