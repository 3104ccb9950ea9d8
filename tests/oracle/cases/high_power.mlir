// Each rounding of x^k is in x^n n / k times; and an odd exponent that no double holds is odd.
func.func @high_power(%x: tensor<17xf64> {tessera.name = "x"}, %y: tensor<17xf32> {tessera.name = "y"}) -> (tensor<17xf64> {tessera.name = "r0"}, tensor<17xf32> {tessera.name = "r1"}, tensor<17xf32> {tessera.name = "r2"}) attributes {tessera.entry = "infer"} {
  %n = "tessera.constant"() {value = dense<1567> : tensor<i64>} : () -> tensor<i64>
  %m = "tessera.constant"() {value = dense<-61> : tensor<i64>} : () -> tensor<i64>
  %p = "tessera.ipow"(%x, %n) : (tensor<17xf64>, tensor<i64>) -> tensor<17xf64>
  %q = "tessera.ipow"(%y, %m) : (tensor<17xf32>, tensor<i64>) -> tensor<17xf32>
  %s = "tessera.sign"(%y) : (tensor<17xf32>) -> tensor<17xf32>
  %o = "tessera.constant"() {value = dense<9007199254740993> : tensor<i64>} : () -> tensor<i64>
  %r = "tessera.ipow"(%s, %o) : (tensor<17xf32>, tensor<i64>) -> tensor<17xf32>
  "func.return"(%p, %q, %r) : (tensor<17xf64>, tensor<17xf32>, tensor<17xf32>) -> ()
}
