// SPDX-License-Identifier: Apache-2.0
module attributes {tessera.target = "cpu:x86-64-v3"} {
  tile.func @k(%x: memref<64x64xbf16>) grid 1 warps 4 {
    %a = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
    tile.return
  }
}
