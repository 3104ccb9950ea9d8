// SPDX-License-Identifier: Apache-2.0
tile.func @k(%x: memref<64x64xbf16>) grid 1 warps 5 {
  tile.return
}
