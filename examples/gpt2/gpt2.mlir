// GPT-2, 124 million parameters: 12 layers of width 768, 12 heads, 1024 places, 50304 tokens. Products and attention of bf16, everything
// else and all that is trained f32. Parameters have the names and shapes of Hugging Face's `safetensors`.
//
//   tessera-aot build examples/gpt2/gpt2.mlir -o gpt2.tsb --target cpu:x86-64-v3,cuda:sm_90a --numerics native
//   tessera-run gpt2.tsb --device cuda --data text=examples/gpt2/train.tokens --data test_text=examples/gpt2/test.tokens \
//       --steps 200 --state-dir S
//
// README.md beside it says how to let it write.
//
// ---- sizes: `sizes.py` writes these lines for other ones ----
!rows = tensor<16x2050xui8>
!losses = tensor<16x1024xf32>
!positions = tensor<1024xi32>
!window = tensor<256xi64>
!window_places = tensor<256xi32>
!window_hits = tensor<256xi1>
!window_scores = tensor<256x50304xf32>
!next = tensor<50304xf32>
!x = tensor<?x?x768xf32>
!h = tensor<?x?x768xbf16>
!flat = tensor<?x768xbf16>
!row = tensor<768xf32>
!row16 = tensor<768xbf16>
!table = tensor<50304x768xf32>
!table16 = tensor<50304x768xbf16>
!logits = tensor<?x?x50304xbf16>
!scores = tensor<?x50304xbf16>
!scores32 = tensor<?x50304xf32>
!place_table = tensor<1024x768xf32>
!place_rows = tensor<?x768xf32>
!split = tensor<?x?x12x64xbf16>
!heads = tensor<?x12x?x64xbf16>
!qkv = tensor<?x?x2304xbf16>
!qkv_w = tensor<768x2304xf32>
!qkv_w16 = tensor<768x2304xbf16>
!qkv_b = tensor<2304xf32>
!qkv_b16 = tensor<2304xbf16>
!out_w = tensor<768x768xf32>
!out_w16 = tensor<768x768xbf16>
!up = tensor<?x?x3072xbf16>
!up_w = tensor<768x3072xf32>
!up_w16 = tensor<768x3072xbf16>
!up_b = tensor<3072xf32>
!up_b16 = tensor<3072xbf16>
!down_w = tensor<3072x768xf32>
!down_w16 = tensor<3072x768xbf16>
#size = [16, 1024]
// ---- end of sizes ----

module @gpt2 {
  func.func private @norm(%x: !x) -> !h {
    %scale = tessera.param "weight" init = #tessera.constant<1.0> : !row
    %shift = tessera.param "bias" init = #tessera.constant<0.0> : !row
    %y = tessera.layernorm_safe %x, %scale, %shift {axes = [2], eps = 1.0e-5} : (!x, !row, !row) -> !x
    %h = tessera.cast %y : !x -> !h
    return %h : !h
  }

  // One layer: attention, then a perceptron, each behind a norm and beside a residual.
  func.func private @block(%x: !x) -> !x {
    %wqkv = tessera.param "attn.c_attn.weight" init = #tessera.normal<0.0, 0.02> : !qkv_w
    %bqkv = tessera.param "attn.c_attn.bias" init = #tessera.constant<0.0> : !qkv_b
    %wout = tessera.param "attn.c_proj.weight" init = #tessera.normal<0.0, 0.00408> : !out_w
    %bout = tessera.param "attn.c_proj.bias" init = #tessera.constant<0.0> : !row
    %wup = tessera.param "mlp.c_fc.weight" init = #tessera.normal<0.0, 0.02> : !up_w
    %bup = tessera.param "mlp.c_fc.bias" init = #tessera.constant<0.0> : !up_b
    %wdown = tessera.param "mlp.c_proj.weight" init = #tessera.normal<0.0, 0.00408> : !down_w
    %bdown = tessera.param "mlp.c_proj.bias" init = #tessera.constant<0.0> : !row
    %wqkv16 = tessera.cast %wqkv : !qkv_w -> !qkv_w16
    %bqkv16 = tessera.cast %bqkv : !qkv_b -> !qkv_b16
    %wout16 = tessera.cast %wout : !out_w -> !out_w16
    %bout16 = tessera.cast %bout : !row -> !row16
    %wup16 = tessera.cast %wup : !up_w -> !up_w16
    %bup16 = tessera.cast %bup : !up_b -> !up_b16
    %wdown16 = tessera.cast %wdown : !down_w -> !down_w16
    %bdown16 = tessera.cast %bdown : !row -> !row16

    %h1 = call @norm(%x) {tessera.prefix = "ln_1"} : (!x) -> !h
    %m1 = tessera.matmul %h1, %wqkv16 : (!h, !qkv_w16) -> !qkv
    %qkv = tessera.add %m1, %bqkv16 : (!qkv, !qkv_b16) -> !qkv
    %parts:3 = tessera.split %qkv {axis = 2 : i64} : !qkv -> (!h, !h, !h)
    %qs = tessera.reshape %parts#0 : !h -> !split
    %ks = tessera.reshape %parts#1 : !h -> !split
    %vs = tessera.reshape %parts#2 : !h -> !split
    %q = tessera.transpose %qs {permutation = [0, 2, 1, 3]} : !split -> !heads
    %k = tessera.transpose %ks {permutation = [0, 2, 1, 3]} : !split -> !heads
    %v = tessera.transpose %vs {permutation = [0, 2, 1, 3]} : !split -> !heads
    %a = tessera.attention %q, %k, %v {causal} : !heads
    %as = tessera.transpose %a {permutation = [0, 2, 1, 3]} : !heads -> !split
    %ah = tessera.reshape %as : !split -> !h
    %m2 = tessera.matmul %ah, %wout16 : (!h, !out_w16) -> !h
    %o = tessera.add %m2, %bout16 : (!h, !row16) -> !h
    %o32 = tessera.cast %o : !h -> !x
    %x1 = tessera.add %x, %o32 : !x

    %h2 = call @norm(%x1) {tessera.prefix = "ln_2"} : (!x) -> !h
    %m3 = tessera.matmul %h2, %wup16 : (!h, !up_w16) -> !up
    %u = tessera.add %m3, %bup16 : (!up, !up_b16) -> !up
    %g = tessera.gelu %u {approximate = "tanh"} : !up
    %m4 = tessera.matmul %g, %wdown16 : (!up, !down_w16) -> !h
    %d = tessera.add %m4, %bdown16 : (!h, !row16) -> !h
    %d32 = tessera.cast %d : !h -> !x
    %y = tessera.add %x1, %d32 : !x
    return %y : !x
  }

  // The table of tokens is also the last product's weight.
  func.func private @table() -> !table {
    %table = tessera.param "wte.weight" init = #tessera.normal<0.0, 0.02> : !table
    return %table : !table
  }

  // What the last product reads, of each place.
  func.func private @states(%tokens: tensor<?x?xi32>, %at: tensor<?xi32>) -> !h {
    %table = call @table() : () -> !table
    %places = tessera.param "wpe.weight" init = #tessera.normal<0.0, 0.01> : !place_table
    %e = tessera.gather %table, %tokens {axis = 0 : i64} : (!table, tensor<?x?xi32>) -> !x
    %p = tessera.gather %places, %at {axis = 0 : i64} : (!place_table, tensor<?xi32>) -> !place_rows
    %x = tessera.add %e, %p : (!x, !place_rows) -> !x
    %x0 = call @block(%x) {tessera.prefix = "h.0"} : (!x) -> !x
    %x1 = call @block(%x0) {tessera.prefix = "h.1"} : (!x) -> !x
    %x2 = call @block(%x1) {tessera.prefix = "h.2"} : (!x) -> !x
    %x3 = call @block(%x2) {tessera.prefix = "h.3"} : (!x) -> !x
    %x4 = call @block(%x3) {tessera.prefix = "h.4"} : (!x) -> !x
    %x5 = call @block(%x4) {tessera.prefix = "h.5"} : (!x) -> !x
    %x6 = call @block(%x5) {tessera.prefix = "h.6"} : (!x) -> !x
    %x7 = call @block(%x6) {tessera.prefix = "h.7"} : (!x) -> !x
    %x8 = call @block(%x7) {tessera.prefix = "h.8"} : (!x) -> !x
    %x9 = call @block(%x8) {tessera.prefix = "h.9"} : (!x) -> !x
    %x10 = call @block(%x9) {tessera.prefix = "h.10"} : (!x) -> !x
    %x11 = call @block(%x10) {tessera.prefix = "h.11"} : (!x) -> !x
    %h = call @norm(%x11) {tessera.prefix = "ln_f"} : (!x) -> !h
    return %h : !h
  }

  func.func private @logits(%states: !h) -> !logits {
    %table = call @table() : () -> !table
    %table16 = tessera.cast %table : !table -> !table16
    %y = tessera.matmul %states, %table16 {transpose_b = true} : (!h, !table16) -> !logits
    return %y : !logits
  }

  // A row is one token more than there are places, 16 bits each: each but the last predicts the next.
  func.func private @losses(%rows: !rows) -> !losses {
    %pairs = tessera.reshape %rows : !rows -> tensor<?x?x2xui8>
    %bytes = tessera.cast %pairs : tensor<?x?x2xui8> -> tensor<?x?x2xi32>
    %weights = tessera.constant dense<[1, 256]> : tensor<2xi32>
    %parts = tessera.mul %bytes, %weights : (tensor<?x?x2xi32>, tensor<2xi32>) -> tensor<?x?x2xi32>
    %text = tessera.sum %parts {axes = [2]} : tensor<?x?x2xi32> -> tensor<?x?xi32>
    %from = tessera.slice %text {start = [0, 0], size = #size} : tensor<?x?xi32> -> tensor<?x?xi32>
    %to = tessera.slice %text {start = [0, 1], size = #size} : tensor<?x?xi32> -> tensor<?x?xi32>
    %all = tessera.iota {axis = 0 : i64} : !positions
    %at = tessera.reshape %all : !positions -> tensor<?xi32>
    %states = call @states(%from, %at) : (tensor<?x?xi32>, tensor<?xi32>) -> !h
    %logits = call @logits(%states) : (!h) -> !logits
    %scores = tessera.reshape %logits : !logits -> !scores
    %scores32 = tessera.cast %scores : !scores -> !scores32
    %label = tessera.reshape %to : tensor<?x?xi32> -> tensor<?xi32>
    %labels = tessera.cast %label : tensor<?xi32> -> tensor<?xi64>
    %flat = tessera.cross_entropy %scores32, %labels : (!scores32, tensor<?xi64>) -> tensor<?xf32>
    %losses = tessera.reshape %flat : tensor<?xf32> -> !losses
    return %losses : !losses
  }

  func.func @train(%rows: !rows {tessera.data = "text"}) -> (tensor<f32> {tessera.name = "loss"})
      attributes {tessera.entry = "train"} {
    %losses = call @losses(%rows) : (!rows) -> !losses
    %loss = tessera.mean %losses {axes = [0, 1]} : !losses -> tensor<f32>
    tessera.minimize %loss {
        optimizer = #tessera.adamw<lr = 2.0e-4, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 1.0e-1>,
        lr_schedule = {kind = "cosine", warmup_steps = 200, total_steps = 1000, final = 0.1}} : tensor<f32>
    return %loss : tensor<f32>
  }

  func.func @evaluate(%rows: !rows {tessera.data = "test_text"}) -> (!losses {tessera.name = "loss"})
      attributes {tessera.entry = "eval", tessera.rows_independent} {
    %losses = call @losses(%rows) : (!rows) -> !losses
    return %losses : !losses
  }

  // What the last product reads, of each place of a window.
  func.func private @window(%text: !window) -> !h {
    %short = tessera.cast %text : !window -> !window_places
    %open = tessera.reshape %short : !window_places -> tensor<?xi32>
    %row = tessera.reshape %open : tensor<?xi32> -> tensor<1x?xi32>
    %tokens = tessera.reshape %row : tensor<1x?xi32> -> tensor<?x?xi32>
    %all = tessera.iota {axis = 0 : i64} : !window_places
    %at = tessera.reshape %all : !window_places -> tensor<?xi32>
    %states = call @states(%tokens, %at) : (tensor<?x?xi32>, tensor<?xi32>) -> !h
    return %states : !h
  }

  // The logits of what follows each token.
  func.func @predict(%text: !window {tessera.name = "tokens"}) -> (!window_scores {tessera.name = "logits"})
      attributes {tessera.entry = "infer"} {
    %states = call @window(%text) : (!window) -> !h
    %logits = call @logits(%states) : (!h) -> !logits
    %scores = tessera.reshape %logits : !logits -> !scores
    %scores32 = tessera.cast %scores : !scores -> !scores32
    %y = tessera.reshape %scores32 : !scores32 -> !window_scores
    return %y : !window_scores
  }

  // Draws the token that follows the first `place` ones (by Gumbel's trick, at temperature 0.8) and puts it behind them.
  func.func @write(%text: !window {tessera.name = "text"}, %place: tensor<1xi64> {tessera.name = "place"})
      -> (!window {tessera.name = "text"}, tensor<1xi64> {tessera.name = "place"}, tensor<i64> {tessera.name = "token"})
      attributes {tessera.entry = "infer"} {
    %states = call @window(%text) : (!window) -> !h
    %flat = tessera.reshape %states : !h -> !flat
    %one = tessera.constant dense<1> : tensor<1xi64>
    %before = tessera.sub %place, %one : tensor<1xi64>
    %open = tessera.reshape %before : tensor<1xi64> -> tensor<?xi64>
    %last = tessera.gather %flat, %open {axis = 0 : i64} : (!flat, tensor<?xi64>) -> !flat
    %state = tessera.reshape %last : !flat -> !h
    %logits = call @logits(%state) : (!h) -> !logits
    %scores = tessera.reshape %logits : !logits -> !scores
    %scores32 = tessera.cast %scores : !scores -> !scores32
    %next = tessera.reshape %scores32 : !scores32 -> !next
    %sharper = tessera.constant dense<1.25> : tensor<f32>
    %sharp = tessera.mul %next, %sharper : (!next, tensor<f32>) -> !next
    %u = tessera.random_uniform : !next
    %log = tessera.log %u : !next
    %positive = tessera.neg %log : !next
    %loglog = tessera.log %positive : !next
    %drawn = tessera.sub %sharp, %loglog : !next
    %token = tessera.argmax %drawn {axis = 0 : i64} : !next -> tensor<i64>

    %places = tessera.iota {axis = 0 : i64} : !window
    %here = tessera.compare eq %places, %place : (!window, tensor<1xi64>) -> !window_hits
    %longer = tessera.where %here, %token, %text : (!window_hits, tensor<i64>, !window) -> !window
    %behind = tessera.add %place, %one : tensor<1xi64>
    return %longer, %behind, %token : !window, tensor<1xi64>, tensor<i64>
  }
}
