// Causal attention of four query heads over two key heads.
//
//   tessera-aot build examples/attention/attention.mlir -o attention.tsb
//   tessera-run attention.tsb --entry attention --input q=examples/attention/q.npy --input k=examples/attention/k.npy
//       --input v=examples/attention/v.npy --output y=y.npy
func.func @attention(%q: tensor<1x4x7x8xf32> {tessera.name = "q"}, %k: tensor<1x2x7x8xf32> {tessera.name = "k"},
                     %v: tensor<1x2x7x8xf32> {tessera.name = "v"}) -> (tensor<1x4x7x8xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.attention %q, %k, %v {causal} : tensor<1x4x7x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32> -> tensor<1x4x7x8xf32>
  return %y : tensor<1x4x7x8xf32>
}
