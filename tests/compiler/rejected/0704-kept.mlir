// SPDX-License-Identifier: Apache-2.0
tile.func @k(%x: memref<64x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %a = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  tile.async_copy %x[%0, %0], %a stage %0 : memref<64x64xbf16>, !tile.shared<2x64x64xbf16>
  tile.wait_async stage %0
  tile.return
}
