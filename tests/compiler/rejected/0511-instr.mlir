// SPDX-License-Identifier: Apache-2.0
// from: tile
// An op of Target IR for kernels that has no machine code yet.
module attributes {tessera.target = "cuda:sm_80"} {
  tile.func @k(%x: memref<64xf32>, %y: memref<64xf32>) grid 1 attributes {outputs = 1 : i64} {
    %0 = arith.constant 0 : index
    %a = tile.load %x[%0] : memref<64xf32> -> f32
    %b = tessera_target.ptx_instr "ex2.approx.f32 $0, $1;", "=f,f"(%a) requires = "sm_80" : (f32) -> f32
    tile.store %b, %y[%0] : f32, memref<64xf32>
    tile.return
  }
}
