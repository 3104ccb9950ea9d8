// A matrix product with a bias and GELU in its epilogue: one kernel.
//
//   tessera-aot build examples/matmul/matmul.mlir -o matmul.tsb
//   tessera-run matmul.tsb --entry matmul --input a=examples/matmul/a.npy --input b=examples/matmul/b.npy \
//       --input c=examples/matmul/c.npy --output y=y.npy
//
// y.npy is then expected.npy, but for the last bits. The rows of b are the columns of the product, as weights mostly lie.
// On a GPU, built with --numerics=native --target=cuda:sm_90a, the matrix units multiply: allow_tf32 permits them factors of 10 bits
// behind the point, so that y.npy differs by up to a hundredth there. On a CPU it changes nothing.
func.func @matmul(%a: tensor<9x16xf32> {tessera.name = "a"}, %b: tensor<11x16xf32> {tessera.name = "b"},
                  %c: tensor<11xf32> {tessera.name = "c"}) -> (tensor<9x11xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %m = tessera.matmul %a, %b {transpose_b = true, allow_tf32} : (tensor<9x16xf32>, tensor<11x16xf32>) -> tensor<9x11xf32>
  %s = tessera.add %m, %c : (tensor<9x11xf32>, tensor<11xf32>) -> tensor<9x11xf32>
  %y = tessera.gelu %s : tensor<9x11xf32>
  return %y : tensor<9x11xf32>
}
