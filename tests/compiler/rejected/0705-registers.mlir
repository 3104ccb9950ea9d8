// SPDX-License-Identifier: Apache-2.0
tile.func @k(%x: memref<64xf32>) grid 1 registers 256 {
  tile.return
}
