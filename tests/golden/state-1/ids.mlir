// Trains nothing: the outputs a, b and c of a step are the sample numbers of its batch, so that the
// order of the samples can be read from the metrics.
func.func @train(%x: tensor<3xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "a"}, tensor<f32> {tessera.name = "b"}, tensor<f32> {tessera.name = "c"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<f32>
  %y = tessera.mul %x, %w : tensor<3xf32>, tensor<f32> -> tensor<3xf32>
  %m = tessera.mean %y {axes = [0]} : tensor<3xf32> -> tensor<f32>
  tessera.minimize %m {optimizer = #tessera.sgd<lr = 0.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  %a0 = tessera.slice %x {start = [0], size = [1], stride = [1]} : tensor<3xf32> -> tensor<1xf32>
  %b0 = tessera.slice %x {start = [1], size = [1], stride = [1]} : tensor<3xf32> -> tensor<1xf32>
  %c0 = tessera.slice %x {start = [2], size = [1], stride = [1]} : tensor<3xf32> -> tensor<1xf32>
  %a = tessera.reshape %a0 : tensor<1xf32> -> tensor<f32>
  %b = tessera.reshape %b0 : tensor<1xf32> -> tensor<f32>
  %c = tessera.reshape %c0 : tensor<1xf32> -> tensor<f32>
  return %a, %b, %c : tensor<f32>, tensor<f32>, tensor<f32>
}
