// Roots of negative numbers, all of which dropout drops: their slope is NaN, and 0 times that, as in PyTorch.
func.func @root_dropped(%x: tensor<16xf64> {tessera.name = "x"}) -> (tensor<16xf64> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %e = "tessera.exp"(%x) : (tensor<16xf64>) -> tensor<16xf64>
  %n = "tessera.neg"(%e) : (tensor<16xf64>) -> tensor<16xf64>
  %o = "tessera.constant"() {value = dense<1.0> : tensor<16xf64>} : () -> tensor<16xf64>
  %k = "tessera.dropout"(%o) {rate = 0.5 : f64, stream = 7 : i64} : (tensor<16xf64>) -> tensor<16xf64>
  %c = "tessera.compare"(%k, %o) {predicate = 4 : i32} : (tensor<16xf64>, tensor<16xf64>) -> tensor<16xi1>
  %v = "tessera.where"(%c, %e, %n) : (tensor<16xi1>, tensor<16xf64>, tensor<16xf64>) -> tensor<16xf64>
  %s = "tessera.sqrt"(%v) : (tensor<16xf64>) -> tensor<16xf64>
  %y = "tessera.dropout"(%s) {rate = 0.5 : f64, stream = 7 : i64} : (tensor<16xf64>) -> tensor<16xf64>
  "func.return"(%y) : (tensor<16xf64>) -> ()
}
