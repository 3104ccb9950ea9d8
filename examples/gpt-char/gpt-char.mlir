// A character-level transformer on Paradise Lost: 4 layers of width 160, 5 heads, 64 places, 1.27 million parameters.
// Bytes are tokens. 8 virtual ranks: the bits are the same on 1 to 8 processes.
//
//   tessera-aot build examples/gpt-char/gpt-char.mlir -o gpt.tsb
//   tessera-run gpt.tsb --data text=examples/gpt-char/train.txt --data test_text=examples/gpt-char/test.txt --steps 1000 \
//       --ranks 2 --state-dir S
//   tessera-run gpt.tsb --entry write --state-dir S --input text=examples/gpt-char/prompt.txt --repeat 436 --output letter=poem.txt
module @gpt attributes {tessera.mesh = {data = 8}} {
  // One layer: attention, then a perceptron, each behind a layernorm and beside a residual.
  func.func private @layer(%x: tensor<?x64x160xf32>, %norm1: tensor<160xf32>, %shift1: tensor<160xf32>,
      %wqkv: tensor<160x480xf32>, %bqkv: tensor<480xf32>, %wout: tensor<160x160xf32>, %bout: tensor<160xf32>,
      %norm2: tensor<160xf32>, %shift2: tensor<160xf32>, %wup: tensor<160x640xf32>, %bup: tensor<640xf32>,
      %wdown: tensor<640x160xf32>, %bdown: tensor<160xf32>) -> tensor<?x64x160xf32> {
    %h1 = tessera.layernorm_safe %x, %norm1, %shift1 {axes = [2], eps = 1.0e-5}
        : tensor<?x64x160xf32>, tensor<160xf32>, tensor<160xf32> -> tensor<?x64x160xf32>
    %m1 = tessera.matmul %h1, %wqkv : (tensor<?x64x160xf32>, tensor<160x480xf32>) -> tensor<?x64x480xf32>
    %qkv = tessera.add %m1, %bqkv : (tensor<?x64x480xf32>, tensor<480xf32>) -> tensor<?x64x480xf32>
    %parts:3 = tessera.split %qkv {axis = 2 : i64}
        : tensor<?x64x480xf32> -> tensor<?x64x160xf32>, tensor<?x64x160xf32>, tensor<?x64x160xf32>
    %qh = tessera.reshape %parts#0 : tensor<?x64x160xf32> -> tensor<?x64x5x32xf32>
    %q = tessera.transpose %qh {permutation = [0, 2, 1, 3]} : tensor<?x64x5x32xf32> -> tensor<?x5x64x32xf32>
    %kh = tessera.reshape %parts#1 : tensor<?x64x160xf32> -> tensor<?x64x5x32xf32>
    %k = tessera.transpose %kh {permutation = [0, 2, 1, 3]} : tensor<?x64x5x32xf32> -> tensor<?x5x64x32xf32>
    %vh = tessera.reshape %parts#2 : tensor<?x64x160xf32> -> tensor<?x64x5x32xf32>
    %v = tessera.transpose %vh {permutation = [0, 2, 1, 3]} : tensor<?x64x5x32xf32> -> tensor<?x5x64x32xf32>
    %a = tessera.attention %q, %k, %v {causal}
        : tensor<?x5x64x32xf32>, tensor<?x5x64x32xf32>, tensor<?x5x64x32xf32> -> tensor<?x5x64x32xf32>
    %at = tessera.transpose %a {permutation = [0, 2, 1, 3]} : tensor<?x5x64x32xf32> -> tensor<?x64x5x32xf32>
    %heads = tessera.reshape %at : tensor<?x64x5x32xf32> -> tensor<?x64x160xf32>
    %m2 = tessera.matmul %heads, %wout : (tensor<?x64x160xf32>, tensor<160x160xf32>) -> tensor<?x64x160xf32>
    %o = tessera.add %m2, %bout : (tensor<?x64x160xf32>, tensor<160xf32>) -> tensor<?x64x160xf32>
    %od = tessera.dropout %o {rate = 1.0e-1} : tensor<?x64x160xf32>
    %x1 = tessera.add %x, %od : tensor<?x64x160xf32>

    %h2 = tessera.layernorm_safe %x1, %norm2, %shift2 {axes = [2], eps = 1.0e-5}
        : tensor<?x64x160xf32>, tensor<160xf32>, tensor<160xf32> -> tensor<?x64x160xf32>
    %m3 = tessera.matmul %h2, %wup : (tensor<?x64x160xf32>, tensor<160x640xf32>) -> tensor<?x64x640xf32>
    %u = tessera.add %m3, %bup : (tensor<?x64x640xf32>, tensor<640xf32>) -> tensor<?x64x640xf32>
    %g = tessera.gelu %u : tensor<?x64x640xf32>
    %m4 = tessera.matmul %g, %wdown : (tensor<?x64x640xf32>, tensor<640x160xf32>) -> tensor<?x64x160xf32>
    %d = tessera.add %m4, %bdown : (tensor<?x64x160xf32>, tensor<160xf32>) -> tensor<?x64x160xf32>
    %dd = tessera.dropout %d {rate = 1.0e-1} : tensor<?x64x160xf32>
    %y = tessera.add %x1, %dd : tensor<?x64x160xf32>
    return %y : tensor<?x64x160xf32>
  }

  // The table of letters is also the last product's weight.
  func.func private @logits(%text: tensor<?x64xui8>) -> tensor<?x64x128xf32> {
    %table = tessera.param "letters" init = #tessera.normal<0.0, 0.02> : tensor<128x160xf32>
    %places = tessera.param "places" init = #tessera.normal<0.0, 0.02> : tensor<64x160xf32>
    %index = tessera.cast %text : tensor<?x64xui8> -> tensor<?x64xi64>
    %e = tessera.gather %table, %index {axis = 0 : i64} : (tensor<128x160xf32>, tensor<?x64xi64>) -> tensor<?x64x160xf32>
    %ep = tessera.add %e, %places : (tensor<?x64x160xf32>, tensor<64x160xf32>) -> tensor<?x64x160xf32>
    %x0 = tessera.dropout %ep {rate = 1.0e-1} : tensor<?x64x160xf32>

    %l1.norm1.scale = tessera.param "layer1.norm1.scale" init = #tessera.constant<1.0> : tensor<160xf32>
    %l1.norm1.bias = tessera.param "layer1.norm1.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %l1.qkv.weight = tessera.param "layer1.qkv.weight" init = #tessera.normal<0.0, 0.02> : tensor<160x480xf32>
    %l1.qkv.bias = tessera.param "layer1.qkv.bias" init = #tessera.constant<0.0> : tensor<480xf32>
    %l1.out.weight = tessera.param "layer1.out.weight" init = #tessera.normal<0.0, 0.00707> : tensor<160x160xf32>
    %l1.out.bias = tessera.param "layer1.out.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %l1.norm2.scale = tessera.param "layer1.norm2.scale" init = #tessera.constant<1.0> : tensor<160xf32>
    %l1.norm2.bias = tessera.param "layer1.norm2.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %l1.up.weight = tessera.param "layer1.up.weight" init = #tessera.normal<0.0, 0.02> : tensor<160x640xf32>
    %l1.up.bias = tessera.param "layer1.up.bias" init = #tessera.constant<0.0> : tensor<640xf32>
    %l1.down.weight = tessera.param "layer1.down.weight" init = #tessera.normal<0.0, 0.00707> : tensor<640x160xf32>
    %l1.down.bias = tessera.param "layer1.down.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %x1 = call @layer(%x0, %l1.norm1.scale, %l1.norm1.bias, %l1.qkv.weight, %l1.qkv.bias, %l1.out.weight, %l1.out.bias,
        %l1.norm2.scale, %l1.norm2.bias, %l1.up.weight, %l1.up.bias, %l1.down.weight, %l1.down.bias)
        : (tensor<?x64x160xf32>, tensor<160xf32>, tensor<160xf32>, tensor<160x480xf32>, tensor<480xf32>, tensor<160x160xf32>, tensor<160xf32>,
           tensor<160xf32>, tensor<160xf32>, tensor<160x640xf32>, tensor<640xf32>, tensor<640x160xf32>, tensor<160xf32>) -> tensor<?x64x160xf32>

    %l2.norm1.scale = tessera.param "layer2.norm1.scale" init = #tessera.constant<1.0> : tensor<160xf32>
    %l2.norm1.bias = tessera.param "layer2.norm1.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %l2.qkv.weight = tessera.param "layer2.qkv.weight" init = #tessera.normal<0.0, 0.02> : tensor<160x480xf32>
    %l2.qkv.bias = tessera.param "layer2.qkv.bias" init = #tessera.constant<0.0> : tensor<480xf32>
    %l2.out.weight = tessera.param "layer2.out.weight" init = #tessera.normal<0.0, 0.00707> : tensor<160x160xf32>
    %l2.out.bias = tessera.param "layer2.out.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %l2.norm2.scale = tessera.param "layer2.norm2.scale" init = #tessera.constant<1.0> : tensor<160xf32>
    %l2.norm2.bias = tessera.param "layer2.norm2.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %l2.up.weight = tessera.param "layer2.up.weight" init = #tessera.normal<0.0, 0.02> : tensor<160x640xf32>
    %l2.up.bias = tessera.param "layer2.up.bias" init = #tessera.constant<0.0> : tensor<640xf32>
    %l2.down.weight = tessera.param "layer2.down.weight" init = #tessera.normal<0.0, 0.00707> : tensor<640x160xf32>
    %l2.down.bias = tessera.param "layer2.down.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %x2 = call @layer(%x1, %l2.norm1.scale, %l2.norm1.bias, %l2.qkv.weight, %l2.qkv.bias, %l2.out.weight, %l2.out.bias,
        %l2.norm2.scale, %l2.norm2.bias, %l2.up.weight, %l2.up.bias, %l2.down.weight, %l2.down.bias)
        : (tensor<?x64x160xf32>, tensor<160xf32>, tensor<160xf32>, tensor<160x480xf32>, tensor<480xf32>, tensor<160x160xf32>, tensor<160xf32>,
           tensor<160xf32>, tensor<160xf32>, tensor<160x640xf32>, tensor<640xf32>, tensor<640x160xf32>, tensor<160xf32>) -> tensor<?x64x160xf32>

    %l3.norm1.scale = tessera.param "layer3.norm1.scale" init = #tessera.constant<1.0> : tensor<160xf32>
    %l3.norm1.bias = tessera.param "layer3.norm1.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %l3.qkv.weight = tessera.param "layer3.qkv.weight" init = #tessera.normal<0.0, 0.02> : tensor<160x480xf32>
    %l3.qkv.bias = tessera.param "layer3.qkv.bias" init = #tessera.constant<0.0> : tensor<480xf32>
    %l3.out.weight = tessera.param "layer3.out.weight" init = #tessera.normal<0.0, 0.00707> : tensor<160x160xf32>
    %l3.out.bias = tessera.param "layer3.out.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %l3.norm2.scale = tessera.param "layer3.norm2.scale" init = #tessera.constant<1.0> : tensor<160xf32>
    %l3.norm2.bias = tessera.param "layer3.norm2.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %l3.up.weight = tessera.param "layer3.up.weight" init = #tessera.normal<0.0, 0.02> : tensor<160x640xf32>
    %l3.up.bias = tessera.param "layer3.up.bias" init = #tessera.constant<0.0> : tensor<640xf32>
    %l3.down.weight = tessera.param "layer3.down.weight" init = #tessera.normal<0.0, 0.00707> : tensor<640x160xf32>
    %l3.down.bias = tessera.param "layer3.down.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %x3 = call @layer(%x2, %l3.norm1.scale, %l3.norm1.bias, %l3.qkv.weight, %l3.qkv.bias, %l3.out.weight, %l3.out.bias,
        %l3.norm2.scale, %l3.norm2.bias, %l3.up.weight, %l3.up.bias, %l3.down.weight, %l3.down.bias)
        : (tensor<?x64x160xf32>, tensor<160xf32>, tensor<160xf32>, tensor<160x480xf32>, tensor<480xf32>, tensor<160x160xf32>, tensor<160xf32>,
           tensor<160xf32>, tensor<160xf32>, tensor<160x640xf32>, tensor<640xf32>, tensor<640x160xf32>, tensor<160xf32>) -> tensor<?x64x160xf32>

    %l4.norm1.scale = tessera.param "layer4.norm1.scale" init = #tessera.constant<1.0> : tensor<160xf32>
    %l4.norm1.bias = tessera.param "layer4.norm1.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %l4.qkv.weight = tessera.param "layer4.qkv.weight" init = #tessera.normal<0.0, 0.02> : tensor<160x480xf32>
    %l4.qkv.bias = tessera.param "layer4.qkv.bias" init = #tessera.constant<0.0> : tensor<480xf32>
    %l4.out.weight = tessera.param "layer4.out.weight" init = #tessera.normal<0.0, 0.00707> : tensor<160x160xf32>
    %l4.out.bias = tessera.param "layer4.out.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %l4.norm2.scale = tessera.param "layer4.norm2.scale" init = #tessera.constant<1.0> : tensor<160xf32>
    %l4.norm2.bias = tessera.param "layer4.norm2.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %l4.up.weight = tessera.param "layer4.up.weight" init = #tessera.normal<0.0, 0.02> : tensor<160x640xf32>
    %l4.up.bias = tessera.param "layer4.up.bias" init = #tessera.constant<0.0> : tensor<640xf32>
    %l4.down.weight = tessera.param "layer4.down.weight" init = #tessera.normal<0.0, 0.00707> : tensor<640x160xf32>
    %l4.down.bias = tessera.param "layer4.down.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %x4 = call @layer(%x3, %l4.norm1.scale, %l4.norm1.bias, %l4.qkv.weight, %l4.qkv.bias, %l4.out.weight, %l4.out.bias,
        %l4.norm2.scale, %l4.norm2.bias, %l4.up.weight, %l4.up.bias, %l4.down.weight, %l4.down.bias)
        : (tensor<?x64x160xf32>, tensor<160xf32>, tensor<160xf32>, tensor<160x480xf32>, tensor<480xf32>, tensor<160x160xf32>, tensor<160xf32>,
           tensor<160xf32>, tensor<160xf32>, tensor<160x640xf32>, tensor<640xf32>, tensor<640x160xf32>, tensor<160xf32>) -> tensor<?x64x160xf32>

    %scale = tessera.param "norm.scale" init = #tessera.constant<1.0> : tensor<160xf32>
    %bias = tessera.param "norm.bias" init = #tessera.constant<0.0> : tensor<160xf32>
    %h = tessera.layernorm_safe %x4, %scale, %bias {axes = [2], eps = 1.0e-5}
        : tensor<?x64x160xf32>, tensor<160xf32>, tensor<160xf32> -> tensor<?x64x160xf32>
    %y = tessera.matmul %h, %table {transpose_b = true} : (tensor<?x64x160xf32>, tensor<128x160xf32>) -> tensor<?x64x128xf32>
    return %y : tensor<?x64x128xf32>
  }

  // A row of text is 65 letters: each but the last predicts the next.
  func.func private @losses(%text: tensor<32x65xui8>) -> tensor<32x64xf32> {
    %from = tessera.slice %text {start = [0, 0], size = [32, 64]} : tensor<32x65xui8> -> tensor<32x64xui8>
    %to = tessera.slice %text {start = [0, 1], size = [32, 64]} : tensor<32x65xui8> -> tensor<32x64xui8>
    %open = tessera.reshape %from : tensor<32x64xui8> -> tensor<?x64xui8>
    %logits = call @logits(%open) : (tensor<?x64xui8>) -> tensor<?x64x128xf32>
    %flat = tessera.reshape %logits : tensor<?x64x128xf32> -> tensor<2048x128xf32>
    %label = tessera.cast %to : tensor<32x64xui8> -> tensor<32x64xi64>
    %labels = tessera.reshape %label : tensor<32x64xi64> -> tensor<2048xi64>
    %each = tessera.cross_entropy %flat, %labels : (tensor<2048x128xf32>, tensor<2048xi64>) -> tensor<2048xf32>
    %losses = tessera.reshape %each : tensor<2048xf32> -> tensor<32x64xf32>
    return %losses : tensor<32x64xf32>
  }

  func.func @train(%text: tensor<32x65xui8> {tessera.data = "text"}) -> (tensor<f32> {tessera.name = "loss"})
      attributes {tessera.entry = "train"} {
    %losses = call @losses(%text) : (tensor<32x65xui8>) -> tensor<32x64xf32>
    %loss = tessera.mean %losses {axes = [0, 1]} : tensor<32x64xf32> -> tensor<f32>
    tessera.minimize %loss {
        optimizer = #tessera.adamw<lr = 2.0e-3, beta1 = 0.9, beta2 = 0.99, eps = 1.0e-8, weight_decay = 1.0e-1>,
        lr_schedule = {kind = "cosine", warmup_steps = 100, total_steps = 1000, final = 0.1}} : tensor<f32>
    return %loss : tensor<f32>
  }

  func.func @evaluate(%text: tensor<32x65xui8> {tessera.data = "test_text"}) -> (tensor<32x64xf32> {tessera.name = "loss"})
      attributes {tessera.entry = "eval", tessera.rows_independent} {
    %losses = call @losses(%text) : (tensor<32x65xui8>) -> tensor<32x64xf32>
    return %losses : tensor<32x64xf32>
  }

  // Draws the letter that follows (by Gumbel's trick, at temperature 0.8) and moves the text on by it.
  func.func @write(%text: tensor<64xui8> {tessera.name = "text"})
      -> (tensor<64xui8> {tessera.name = "text"}, tensor<ui8> {tessera.name = "letter"}) attributes {tessera.entry = "infer"} {
    %row = tessera.reshape %text : tensor<64xui8> -> tensor<1x64xui8>
    %open = tessera.reshape %row : tensor<1x64xui8> -> tensor<?x64xui8>
    %all = call @logits(%open) : (tensor<?x64xui8>) -> tensor<?x64x128xf32>
    %places = tessera.reshape %all : tensor<?x64x128xf32> -> tensor<64x128xf32>
    %last = tessera.slice %places {start = [63, 0], size = [1, 128]} : tensor<64x128xf32> -> tensor<1x128xf32>
    %logits = tessera.reshape %last : tensor<1x128xf32> -> tensor<128xf32>
    %sharper = tessera.constant dense<1.25> : tensor<f32>
    %scores = tessera.mul %logits, %sharper : (tensor<128xf32>, tensor<f32>) -> tensor<128xf32>
    %u = tessera.random_uniform : tensor<128xf32>
    %log = tessera.log %u : tensor<128xf32>
    %positive = tessera.neg %log : tensor<128xf32>
    %loglog = tessera.log %positive : tensor<128xf32>
    %drawn = tessera.sub %scores, %loglog : tensor<128xf32>
    %best = tessera.argmax %drawn {axis = 0 : i64} : tensor<128xf32> -> tensor<i64>
    %letter = tessera.cast %best : tensor<i64> -> tensor<ui8>

    %tail = tessera.slice %text {start = [1], size = [63]} : tensor<64xui8> -> tensor<63xui8>
    %end = tessera.reshape %letter : tensor<ui8> -> tensor<1xui8>
    %next = tessera.concat %tail, %end {axis = 0 : i64} : (tensor<63xui8>, tensor<1xui8>) -> tensor<64xui8>
    return %next, %letter : tensor<64xui8>, tensor<ui8>
  }
}
