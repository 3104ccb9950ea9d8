// Causal attention of four query heads over two key heads.
//
//   tessera-aot build examples/flash-attn/flash-attn.mlir -o flash-attn.tsb
//   tessera-run flash-attn.tsb --entry attention --input q=examples/flash-attn/q.npy --input k=examples/flash-attn/k.npy \
//       --input v=examples/flash-attn/v.npy --output y=y.npy
//
// y.npy is then expected.npy, but for the last bits.
func.func @attention(%q: tensor<1x4x7x8xf32> {tessera.name = "q"}, %k: tensor<1x2x7x8xf32> {tessera.name = "k"},
                     %v: tensor<1x2x7x8xf32> {tessera.name = "v"}) -> (tensor<1x4x7x8xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.attention %q, %k, %v {causal} : (tensor<1x4x7x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>) -> tensor<1x4x7x8xf32>
  return %y : tensor<1x4x7x8xf32>
}
