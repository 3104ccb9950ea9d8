// The smallest program with a state of whole blocks and a rest: what it costs is what the store costs.
module @tiny {
  func.func @train(%x: tensor<8x40xf32> {tessera.data = "x"}, %t: tensor<8x32xf32> {tessera.data = "t"})
      -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "weight" init = #tessera.uniform<-0.2, 0.2> : tensor<40x32xf32>
    %b = tessera.param "bias" init = #tessera.constant<0.0> : tensor<32xf32>
    %m = tessera.matmul %x, %w : (tensor<8x40xf32>, tensor<40x32xf32>) -> tensor<8x32xf32>
    %y = tessera.add %m, %b : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
    %d = tessera.sub %y, %t : tensor<8x32xf32>
    %s = tessera.mul %d, %d : tensor<8x32xf32>
    %loss = tessera.mean %s {axes = [0, 1]} : tensor<8x32xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 1.0e-2>} : tensor<f32>
    return %loss : tensor<f32>
  }
}
