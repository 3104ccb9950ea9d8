// A training step of about 100 ms on two cores, with 64 MiB of parameters and moments: what it waits for a save.
module @state {
  func.func @train(%x: tensor<256x2048xf32> {tessera.data = "x"}, %t: tensor<256x2730xf32> {tessera.data = "t"})
      -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "weight" init = #tessera.uniform<-0.02, 0.02> : tensor<2048x2730xf32>
    %m = tessera.matmul %x, %w : (tensor<256x2048xf32>, tensor<2048x2730xf32>) -> tensor<256x2730xf32>
    %d = tessera.sub %m, %t : tensor<256x2730xf32>
    %s = tessera.mul %d, %d : tensor<256x2730xf32>
    %loss = tessera.mean %s {axes = [0, 1]} : tensor<256x2730xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0e-3, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 1.0e-2>} : tensor<f32>
    return %loss : tensor<f32>
  }
}
