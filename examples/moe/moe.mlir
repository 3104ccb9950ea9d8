// A mixture of 8 experts on 8x8 handwritten digits, trained on ranks that hold their experts only.
//
//   tessera-aot build examples/moe/moe.mlir -o moe.tsb
//   tessera-run moe.tsb --data images=examples/digits/train-images.npy --data labels=examples/digits/train-labels.npy \
//       --steps 300 --ranks 2 --state-dir S
//
// It ends with: state 63983e4efc39eae8
//
// --set expert_slots=4 throttles the experts: each takes at most 4 of the 16 tokens of a group.
module @moe attributes {tessera.mesh = {expert = 4}} {
  func.func private @logits(%pixels: tensor<128x64xui8>, %limit: tensor<8xi64>) -> (tensor<128x10xf32>, tensor<f32>, tensor<8xi64>) {
    %embed = tessera.param "embed.weight" init = #tessera.uniform<-0.2165, 0.2165> : tensor<64x32xf32>
    %router = tessera.param "router.weight" init = #tessera.uniform<-0.3062, 0.3062> : tensor<32x8xf32>
    %up = tessera.param "experts.up" init = #tessera.uniform<-0.3062, 0.3062> : tensor<8x32x64xf32>
    %bias = tessera.param "experts.bias" init = #tessera.constant<0.0> : tensor<8x1x64xf32>
    %down = tessera.param "experts.down" init = #tessera.uniform<-0.2165, 0.2165> : tensor<8x64x32xf32>
    %head = tessera.param "head.weight" init = #tessera.uniform<-0.3062, 0.3062> : tensor<32x10xf32>

    // Each position of the axis `expert` has 2 of the 8 experts, and a fourth of the batch.
    %u = tsched.value %up : tensor<8x32x64xf32>
    %c = tsched.value %bias : tensor<8x1x64xf32>
    %d = tsched.value %down : tensor<8x64x32xf32>
    tsched.layout %u {partition = ["expert"], mesh_axes = ["expert"]}
    tsched.layout %c {partition = ["expert"], mesh_axes = ["expert"]}
    tsched.layout %d {partition = ["expert"], mesh_axes = ["expert"]}

    %raw = tessera.cast %pixels : tensor<128x64xui8> -> tensor<128x64xf32>
    %scale = tessera.constant dense<6.250000e-02> : tensor<f32>
    %x = tessera.mul %raw, %scale : (tensor<128x64xf32>, tensor<f32>) -> tensor<128x64xf32>
    %e = tessera.matmul %x, %embed : (tensor<128x64xf32>, tensor<64x32xf32>) -> tensor<128x32xf32>
    %h = tessera.relu %e : tensor<128x32xf32>

    // 8 groups of 16 tokens; a token goes to 2 experts, and an expert has 8 slots for each group.
    %t = tessera.reshape %h : tensor<128x32xf32> -> tensor<8x16x32xf32>
    %scores = tessera.matmul %t, %router : (tensor<8x16x32xf32>, tensor<32x8xf32>) -> tensor<8x16x8xf32>
    %weights, %slots, %balance, %load = tessera.moe_route %scores, %limit {k = 2, capacity = 8, normalize = true}
        : (tensor<8x16x8xf32>, tensor<8xi64>) -> (tensor<8x16x2xf32>, tensor<8x16x2xi64>, tensor<f32>, tensor<8xi64>)
    %in = tessera.moe_dispatch %t, %slots {experts = 8, capacity = 8} : (tensor<8x16x32xf32>, tensor<8x16x2xi64>) -> tensor<8x8x8x32xf32>
    %rows = tessera.reshape %in : tensor<8x8x8x32xf32> -> tensor<8x64x32xf32>
    %m1 = tessera.matmul %rows, %up : (tensor<8x64x32xf32>, tensor<8x32x64xf32>) -> tensor<8x64x64xf32>
    %a1 = tessera.add %m1, %bias : (tensor<8x64x64xf32>, tensor<8x1x64xf32>) -> tensor<8x64x64xf32>
    %h1 = tessera.gelu %a1 : tensor<8x64x64xf32>
    %m2 = tessera.matmul %h1, %down : (tensor<8x64x64xf32>, tensor<8x64x32xf32>) -> tensor<8x64x32xf32>
    %out = tessera.reshape %m2 : tensor<8x64x32xf32> -> tensor<8x8x8x32xf32>
    %mixed = tessera.moe_combine %out, %slots, %weights : (tensor<8x8x8x32xf32>, tensor<8x16x2xi64>, tensor<8x16x2xf32>) -> tensor<8x16x32xf32>
    %sum = tessera.add %t, %mixed : tensor<8x16x32xf32>
    %flat = tessera.reshape %sum : tensor<8x16x32xf32> -> tensor<128x32xf32>
    %y = tessera.matmul %flat, %head : (tensor<128x32xf32>, tensor<32x10xf32>) -> tensor<128x10xf32>
    return %y, %balance, %load : tensor<128x10xf32>, tensor<f32>, tensor<8xi64>
  }

  func.func @train(%images: tensor<128x64xui8> {tessera.data = "images"},
                   %labels: tensor<128xi64> {tessera.data = "labels"})
      -> (tensor<f32> {tessera.name = "loss"}, tensor<f32> {tessera.name = "balance"}) attributes {tessera.entry = "train"} {
    %number = tessera.hyperparameter {key = "expert_slots", value = 8.0, least = 1.0, most = 8.0} : tensor<f32>
    %whole = tessera.cast %number : tensor<f32> -> tensor<i64>
    %limit = tessera.broadcast %whole : tensor<i64> -> tensor<8xi64>
    %logits, %balance, %load = call @logits(%images, %limit) : (tensor<128x64xui8>, tensor<8xi64>) -> (tensor<128x10xf32>, tensor<f32>, tensor<8xi64>)
    %losses = tessera.cross_entropy %logits, %labels : (tensor<128x10xf32>, tensor<128xi64>) -> tensor<128xf32>
    %fit = tessera.mean %losses {axes = [0]} : tensor<128xf32> -> tensor<f32>
    %share = tessera.constant dense<1.0e-2> : tensor<f32>
    %even = tessera.mul %balance, %share : tensor<f32>
    %loss = tessera.add %fit, %even : tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.adamw<lr = 2.0e-3, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 1.0e-2>, clip_norm = 1.0} : tensor<f32>
    return %fit, %balance : tensor<f32>, tensor<f32>
  }

  func.func @predict(%x: tensor<128x64xui8> {tessera.name = "x"}) -> (tensor<128x10xf32> {tessera.name = "y"})
      attributes {tessera.entry = "infer"} {
    %limit = tessera.constant dense<8> : tensor<8xi64>
    %y, %balance, %load = call @logits(%x, %limit) : (tensor<128x64xui8>, tensor<8xi64>) -> (tensor<128x10xf32>, tensor<f32>, tensor<8xi64>)
    return %y : tensor<128x10xf32>
  }
}
