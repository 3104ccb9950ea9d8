// A 64-128-64-10 perceptron on 8x8 handwritten digits, trained with AdamW.
//
//   tessera-aot build examples/digits/digits.mlir -o digits.tsb
//   tessera-run digits.tsb --data images=examples/digits/train-images.npy --data labels=examples/digits/train-labels.npy \
//       --data test_images=examples/digits/test-images.npy --data test_labels=examples/digits/test-labels.npy --steps 500 --state-dir S
//
// It ends with: eval step 500 loss 0.127578 accuracy 0.961003 (359 rows)
module @digits {
  func.func private @logits(%pixels: tensor<64x64xui8>) -> tensor<64x10xf32> {
    %w1 = tessera.param "layer1.weight" init = #tessera.uniform<-0.2165, 0.2165> : tensor<64x128xf32>
    %b1 = tessera.param "layer1.bias" init = #tessera.constant<0.0> : tensor<128xf32>
    %w2 = tessera.param "layer2.weight" init = #tessera.uniform<-0.1531, 0.1531> : tensor<128x64xf32>
    %b2 = tessera.param "layer2.bias" init = #tessera.constant<0.0> : tensor<64xf32>
    %w3 = tessera.param "layer3.weight" init = #tessera.uniform<-0.2165, 0.2165> : tensor<64x10xf32>
    %b3 = tessera.param "layer3.bias" init = #tessera.constant<0.0> : tensor<10xf32>

    // Pixels are 0 ... 16.
    %raw = tessera.cast %pixels : tensor<64x64xui8> -> tensor<64x64xf32>
    %scale = tessera.constant dense<6.250000e-02> : tensor<f32>
    %x = tessera.mul %raw, %scale : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>

    %m1 = tessera.matmul %x, %w1 : (tensor<64x64xf32>, tensor<64x128xf32>) -> tensor<64x128xf32>
    %a1 = tessera.add %m1, %b1 : (tensor<64x128xf32>, tensor<128xf32>) -> tensor<64x128xf32>
    %h1 = tessera.relu %a1 : tensor<64x128xf32>
    %m2 = tessera.matmul %h1, %w2 : (tensor<64x128xf32>, tensor<128x64xf32>) -> tensor<64x64xf32>
    %a2 = tessera.add %m2, %b2 : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
    %h2 = tessera.relu %a2 : tensor<64x64xf32>
    %m3 = tessera.matmul %h2, %w3 : (tensor<64x64xf32>, tensor<64x10xf32>) -> tensor<64x10xf32>
    %y = tessera.add %m3, %b3 : (tensor<64x10xf32>, tensor<10xf32>) -> tensor<64x10xf32>
    return %y : tensor<64x10xf32>
  }

  // One call is one step: `minimize` differentiates the loss and updates every parameter it depends on.
  func.func @train(%images: tensor<64x64xui8> {tessera.data = "images"},
                   %labels: tensor<64xi64> {tessera.data = "labels"})
      -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %logits = call @logits(%images) : (tensor<64x64xui8>) -> tensor<64x10xf32>
    %losses = tessera.cross_entropy %logits, %labels : (tensor<64x10xf32>, tensor<64xi64>) -> tensor<64xf32>
    %loss = tessera.mean %losses {axes = [0]} : tensor<64xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0e-3, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 3.0e-1>} : tensor<f32>
    return %loss : tensor<f32>
  }

  // Row-wise results are averaged over the data set bound to `test_images` and `test_labels`.
  func.func @evaluate(%images: tensor<64x64xui8> {tessera.data = "test_images"},
                      %labels: tensor<64xi64> {tessera.data = "test_labels"})
      -> (tensor<64xf32> {tessera.name = "loss"}, tensor<64xf32> {tessera.name = "accuracy"})
      attributes {tessera.entry = "eval", tessera.rows_independent} {
    %logits = call @logits(%images) : (tensor<64x64xui8>) -> tensor<64x10xf32>
    %losses = tessera.cross_entropy %logits, %labels : (tensor<64x10xf32>, tensor<64xi64>) -> tensor<64xf32>
    %best = tessera.argmax %logits {axis = 1 : i64} : tensor<64x10xf32> -> tensor<64xi64>
    %hit = tessera.compare eq %best, %labels : tensor<64xi64> -> tensor<64xi1>
    %accuracy = tessera.cast %hit : tensor<64xi1> -> tensor<64xf32>
    return %losses, %accuracy : tensor<64xf32>, tensor<64xf32>
  }

  func.func @predict(%x: tensor<64x64xui8> {tessera.name = "x"}) -> (tensor<64x10xf32> {tessera.name = "y"})
      attributes {tessera.entry = "infer", tessera.rows_independent} {
    %y = call @logits(%x) : (tensor<64x64xui8>) -> tensor<64x10xf32>
    return %y : tensor<64x10xf32>
  }
}
