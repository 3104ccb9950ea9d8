// Causal attention of four query heads over two key heads, in bf16: on a GPU its matrix units compute it.
//
//   tessera-aot build examples/flash-attn-bf16/flash-attn-bf16.mlir -o flash-attn-bf16.tsb
//   tessera-run flash-attn-bf16.tsb --entry attention --input q=examples/flash-attn-bf16/q.npy --input k=examples/flash-attn-bf16/k.npy \
//       --input v=examples/flash-attn-bf16/v.npy --output y=y.npy
//
// y.npy is then within 2e-2 of expected.npy, which knows nothing of bf16: its 8 bits say each input and result to 1 in 256.
// The units need --numerics=native --target=cuda:sm_90a (or sm_80), and heads of 64 or 128 numbers.
func.func @attention(%q: tensor<1x4x7x64xf32> {tessera.name = "q"}, %k: tensor<1x2x7x64xf32> {tessera.name = "k"},
                     %v: tensor<1x2x7x64xf32> {tessera.name = "v"}) -> (tensor<1x4x7x64xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %a = tessera.cast %q : tensor<1x4x7x64xf32> -> tensor<1x4x7x64xbf16>
  %b = tessera.cast %k : tensor<1x2x7x64xf32> -> tensor<1x2x7x64xbf16>
  %c = tessera.cast %v : tensor<1x2x7x64xf32> -> tensor<1x2x7x64xbf16>
  %x = tessera.attention %a, %b, %c {causal} : (tensor<1x4x7x64xbf16>, tensor<1x2x7x64xbf16>, tensor<1x2x7x64xbf16>) -> tensor<1x4x7x64xbf16>
  %y = tessera.cast %x : tensor<1x4x7x64xbf16> -> tensor<1x4x7x64xf32>
  return %y : tensor<1x4x7x64xf32>
}
