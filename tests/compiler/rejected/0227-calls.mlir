// SPDX-License-Identifier: Apache-2.0
// run: -tessera-verify
// expand: 24 func.func private @f{i}(%x: tensor<f32>) -> tensor<f32> { %y = func.call @f{i+1}(%x) : (tensor<f32>) -> tensor<f32> %z = func.call @f{i+1}(%y) : (tensor<f32>) -> tensor<f32> return %z : tensor<f32> }
func.func private @f24(%x: tensor<f32>) -> tensor<f32> {
  %y = tessera.exp %x : tensor<f32>
  return %y : tensor<f32>
}
func.func @f(%x: tensor<f32> {tessera.name = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = func.call @f0(%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
