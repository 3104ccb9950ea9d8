// SPDX-License-Identifier: Apache-2.0
tile.func @k(%x: memref<64x64xbf16>) grid 1 {
  %a = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  tile.return
}
