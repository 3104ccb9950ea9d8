// SPDX-License-Identifier: Apache-2.0
// run: -tessera-effects
// What a function states counts for its callers, even if it does less.
func.func private @saves(%x: tensor<4xf32>) -> tensor<4xf32> attributes {tessera.effects = ["io"]} {
  return %x : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer", tessera.effects = []} {
  %0 = func.call @saves(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
