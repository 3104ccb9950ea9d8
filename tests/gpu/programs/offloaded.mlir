// SPDX-License-Identifier: Apache-2.0
// Steps whose activations wait in the host's memory where the workspace may be no larger than half of what they need: `pack` builds it both ways.
module @offloaded {
  func.func private @layer(%x: tensor<512x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<512x1024xf32> {
    %y = tessera.matmul %x, %w : (tensor<512x1024xf32>, tensor<1024x1024xf32>) -> tensor<512x1024xf32>
    %s = tessera.softmax_safe %y {axis = 1 : i64} : tensor<512x1024xf32>
    %g = tessera.gelu %y {approximate = "tanh"} : tensor<512x1024xf32>
    %r = tessera.add %s, %g : tensor<512x1024xf32>
    return %r : tensor<512x1024xf32>
  }
  func.func @train(%nothing: tensor<4x1xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %x = tessera.param "x" init = #tessera.normal<0.0, 1.0> : tensor<512x1024xf32>
    %a = tessera.param "a" init = #tessera.normal<0.0, 0.04> : tensor<1024x1024xf32>
    %b = tessera.param "b" init = #tessera.normal<0.0, 0.04> : tensor<1024x1024xf32>
    %c = tessera.param "c" init = #tessera.normal<0.0, 0.04> : tensor<1024x1024xf32>
    %d = tessera.param "d" init = #tessera.normal<0.0, 0.04> : tensor<1024x1024xf32>
    %1 = call @layer(%x, %a) : (tensor<512x1024xf32>, tensor<1024x1024xf32>) -> tensor<512x1024xf32>
    %2 = call @layer(%1, %b) : (tensor<512x1024xf32>, tensor<1024x1024xf32>) -> tensor<512x1024xf32>
    %3 = call @layer(%2, %c) : (tensor<512x1024xf32>, tensor<1024x1024xf32>) -> tensor<512x1024xf32>
    %4 = call @layer(%3, %d) : (tensor<512x1024xf32>, tensor<1024x1024xf32>) -> tensor<512x1024xf32>
    %5 = tessera.mul %4, %4 : tensor<512x1024xf32>
    %loss = tessera.mean %5 {axes = [0, 1]} : tensor<512x1024xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0e-3, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.1>} : tensor<f32>
    return %loss : tensor<f32>
  }
}
