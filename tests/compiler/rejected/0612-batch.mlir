// SPDX-License-Identifier: Apache-2.0
// run: -tessera-virtual-ranks
module attributes {tessera.mesh = {data = 4}} {
  func.func @train(%x: tensor<6x3xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "y"})
      attributes {tessera.entry = "train"} {
    %y = tessera.sum %x {axes = [0, 1]} : tensor<6x3xf32> -> tensor<f32>
    return %y : tensor<f32>
  }
}
