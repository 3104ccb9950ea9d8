// SPDX-License-Identifier: Apache-2.0
tile.func @k(%c: memref<64x64xf32>) grid 1 warps 8 {
  %z = arith.constant 0.0 : f32
  %f = tile.fill %z : f32 -> !tile.fragment<64x64xf32, acc>
  tile.return
}
