// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify-scheduled
module attributes {tessera.target = "cuda:sm_80"} {
  func.func @f(%x: tensor<64xf32> {tessera.name = "x"}) -> (tensor<64xf32> {tessera.name = "y"})
      attributes {tessera.entry = "infer", tessera.deterministic = {seed = 7 : i64}} {
    %0 = tsched.call @k(%x) : (tensor<64xf32>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
  tile.func @k(%x: memref<64xf32>, %y: memref<64xf32>) grid 1 attributes {outputs = 1 : i64} {
    %0 = arith.constant 0 : index
    %a = tile.load %x[%0] : memref<64xf32> -> f32
    %b = tessera_target.ptx_instr "ex2.approx.f32 $0, $1;", "=f,f"(%a) requires = "sm_80" {deterministic} : (f32) -> f32
    %c = tessera_target.ptx_instr "ex2.approx.f32 $0, $1;", "=f,f"(%b) requires = "sm_80" : (f32) -> f32
    tile.store %c, %y[%0] : f32, memref<64xf32>
    tile.return
  }
}
