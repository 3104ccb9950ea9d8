// SPDX-License-Identifier: Apache-2.0
module attributes {tessera.target = "cuda:sm_80"} {
  tile.func @k(%x: memref<64x64xbf16>) grid 1 warps 4 {
    %a = tile.alloc_shared swizzle = "xor" : !tile.shared<3x256x128xbf16>
    tile.return
  }
}
