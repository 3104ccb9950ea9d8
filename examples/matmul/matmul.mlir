// A matrix product with a bias and GELU in its epilogue: one kernel.
//
//   tessera-aot build examples/matmul/matmul.mlir -o matmul.tsb
//   tessera-run matmul.tsb --entry matmul --input a=examples/matmul/a.npy --input b=examples/matmul/b.npy \
//       --input c=examples/matmul/c.npy --output y=y.npy
//
// y.npy is then expected.npy, but for the last bits.
func.func @matmul(%a: tensor<9x16xf32> {tessera.name = "a"}, %b: tensor<16x11xf32> {tessera.name = "b"},
                  %c: tensor<11xf32> {tessera.name = "c"}) -> (tensor<9x11xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %m = tessera.matmul %a, %b : tensor<9x16xf32>, tensor<16x11xf32> -> tensor<9x11xf32>
  %s = tessera.add %m, %c : tensor<9x11xf32>, tensor<11xf32> -> tensor<9x11xf32>
  %y = tessera.gelu %s : tensor<9x11xf32>
  return %y : tensor<9x11xf32>
}
