// SPDX-License-Identifier: Apache-2.0
// run: -tessera-graph -tsched-fuse
func.func private @chain(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = tessera.matmul %x, %x : tensor<8x8xf32> -> tensor<8x8xf32>
  %1 = tessera.matmul %0, %x : tensor<8x8xf32> -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
func.func private @plan(%x: tensor<8x8xf32>) {
  %X = tsched.value %x : tensor<8x8xf32>
  tsched.module {
    %g = tsched.fuse @chain(%X)
    %f = tsched.materialize %g : !tsched.func
    tsched.return %f
  }
  return
}
func.func @f(%x: tensor<8x8xf32> {tessera.name = "x"}) -> (tensor<8x8xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = call @chain(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
