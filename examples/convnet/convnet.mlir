// A small convolutional net on the 8x8 digits of examples/digits: two convolutions with pooling, one linear layer.
//
//   tessera-aot build examples/convnet/convnet.mlir -o convnet.tsb
//   tessera-run convnet.tsb --data images=examples/digits/train-images.npy --data labels=examples/digits/train-labels.npy \
//       --data test_images=examples/digits/test-images.npy --data test_labels=examples/digits/test-labels.npy --steps 600
//
// It ends with: eval step 600 loss 0.085596 accuracy 0.977716 (359 rows)
module @convnet {
  func.func private @logits(%pixels: tensor<64x64xui8>) -> tensor<64x10xf32> {
    %k1 = tessera.param "conv1.weight" init = #tessera.uniform<-0.333, 0.333> : tensor<3x3x1x16xf32>
    %b1 = tessera.param "conv1.bias" init = #tessera.constant<0.0> : tensor<16xf32>
    %k2 = tessera.param "conv2.weight" init = #tessera.uniform<-0.0833, 0.0833> : tensor<3x3x16x32xf32>
    %b2 = tessera.param "conv2.bias" init = #tessera.constant<0.0> : tensor<32xf32>
    %w = tessera.param "linear.weight" init = #tessera.uniform<-0.0883, 0.0883> : tensor<128x10xf32>
    %b3 = tessera.param "linear.bias" init = #tessera.constant<0.0> : tensor<10xf32>

    // Images are [batch, height, width, channels]; pixels are 0 ... 16.
    %raw = tessera.cast %pixels : tensor<64x64xui8> -> tensor<64x64xf32>
    %scale = tessera.constant dense<6.250000e-02> : tensor<f32>
    %scaled = tessera.mul %raw, %scale : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
    %image = tessera.reshape %scaled : tensor<64x64xf32> -> tensor<64x8x8x1xf32>

    %c1 = tessera.conv2d %image, %k1 {strides = [1, 1], padding = [1, 1, 1, 1], dilation = [1, 1]}
        : tensor<64x8x8x1xf32>, tensor<3x3x1x16xf32> -> tensor<64x8x8x16xf32>
    %a1 = tessera.add %c1, %b1 : (tensor<64x8x8x16xf32>, tensor<16xf32>) -> tensor<64x8x8x16xf32>
    %r1 = tessera.relu %a1 : tensor<64x8x8x16xf32>
    %p1 = tessera.max_pool2d %r1 {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]}
        : tensor<64x8x8x16xf32> -> tensor<64x4x4x16xf32>

    %c2 = tessera.conv2d %p1, %k2 {strides = [1, 1], padding = [1, 1, 1, 1], dilation = [1, 1]}
        : tensor<64x4x4x16xf32>, tensor<3x3x16x32xf32> -> tensor<64x4x4x32xf32>
    %a2 = tessera.add %c2, %b2 : (tensor<64x4x4x32xf32>, tensor<32xf32>) -> tensor<64x4x4x32xf32>
    %r2 = tessera.relu %a2 : tensor<64x4x4x32xf32>
    %p2 = tessera.max_pool2d %r2 {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]}
        : tensor<64x4x4x32xf32> -> tensor<64x2x2x32xf32>

    %flat = tessera.reshape %p2 : tensor<64x2x2x32xf32> -> tensor<64x128xf32>
    %m = tessera.matmul %flat, %w : (tensor<64x128xf32>, tensor<128x10xf32>) -> tensor<64x10xf32>
    %y = tessera.add %m, %b3 : (tensor<64x10xf32>, tensor<10xf32>) -> tensor<64x10xf32>
    return %y : tensor<64x10xf32>
  }

  func.func @train(%images: tensor<64x64xui8> {tessera.data = "images"},
                   %labels: tensor<64xi64> {tessera.data = "labels"})
      -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %logits = call @logits(%images) : (tensor<64x64xui8>) -> tensor<64x10xf32>
    %losses = tessera.cross_entropy %logits, %labels : (tensor<64x10xf32>, tensor<64xi64>) -> tensor<64xf32>
    %loss = tessera.mean %losses {axes = [0]} : tensor<64xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.adamw<lr = 3.0e-3, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 1.0e-2>} : tensor<f32>
    return %loss : tensor<f32>
  }

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
}
