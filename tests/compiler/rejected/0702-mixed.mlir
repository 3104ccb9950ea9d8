// SPDX-License-Identifier: Apache-2.0
tile.func @k(%x: memref<64x64xbf16>) grid 1 warps 4 {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %a = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xbf16>
  %b = tile.alloc_shared swizzle = "xor" : !tile.shared<2x64x64xf16>
  %s = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  %t = tile.mma %a, %b, %s stage %0 : !tile.shared<2x64x64xbf16>, !tile.shared<2x64x64xf16>, !tile.fragment<64x64xf32, acc>
  tile.return
}
