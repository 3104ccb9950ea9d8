// The softmax of each row: one kernel, one pass over memory.
//
//   tessera-aot build examples/softmax/softmax.mlir -o softmax.tsb
//   tessera-run softmax.tsb --entry softmax --input x=examples/softmax/x.npy --output y=y.npy
//
// y.npy is then expected.npy, but for the last bits.
func.func @softmax(%x: tensor<5x12xf32> {tessera.name = "x"}) -> (tensor<5x12xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<5x12xf32>
  return %y : tensor<5x12xf32>
}
