// A training entry with an argument besides its data: `rate` scales the loss, and so the step.
module @rated {
  func.func @train(%x: tensor<4x3xf32> {tessera.data = "x"}, %rate: tensor<f32> {tessera.name = "rate"})
      -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<3xf32>
    %a = tessera.mul %x, %w : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %b = tessera.mul %a, %rate : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
    %loss = tessera.mean %b {axes = [0, 1]} : tensor<4x3xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0e-1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    return %loss : tensor<f32>
  }
}
