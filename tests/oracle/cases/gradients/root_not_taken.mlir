// The root of a negative number that where does not pick: its slope is NaN, and 0 times that, as in PyTorch.
func.func @root_not_taken(%x: tensor<16xf64> {tessera.name = "x"}) -> (tensor<16xf64> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %z = "tessera.constant"() {value = dense<0.0> : tensor<f64>} : () -> tensor<f64>
  %c = "tessera.compare"(%x, %z) {predicate = 4 : i32} : (tensor<16xf64>, tensor<f64>) -> tensor<16xi1>
  %s = "tessera.sqrt"(%x) : (tensor<16xf64>) -> tensor<16xf64>
  %y = "tessera.where"(%c, %s, %z) : (tensor<16xi1>, tensor<16xf64>, tensor<f64>) -> tensor<16xf64>
  "func.return"(%y) : (tensor<16xf64>) -> ()
}
