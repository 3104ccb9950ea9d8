// SPDX-License-Identifier: Apache-2.0
// run: -tessera-effects
func.func private @product(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = tessera.matmul %x, %x {allow_tf32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func @f(%x: tensor<4x4xf32> {tessera.name = "x"}) -> (tensor<4x4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer", tessera.deterministic = {seed = 7 : i64}} {
  %0 = func.call @product(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
