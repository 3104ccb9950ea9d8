// Integers that no double holds: constants that a kernel reads whole, returns, or adds.
func.func @wide_integers(%i: tensor<2xi1> {tessera.name = "i"}, %x: tensor<5xi64> {tessera.name = "x"}) -> (tensor<2x3xi64> {tessera.name = "r0"}, tensor<i64> {tessera.name = "r1"}, tensor<5xi64> {tessera.name = "r2"}) attributes {tessera.entry = "infer"} {
  %k = "tessera.constant"() {value = dense<9007199254740993> : tensor<4x3xi64>} : () -> tensor<4x3xi64>
  %s = "tessera.constant"() {value = dense<-9007199254740995> : tensor<i64>} : () -> tensor<i64>
  %p = "tessera.cast"(%i) : (tensor<2xi1>) -> tensor<2xi64>
  %y = "tessera.gather"(%k, %p) {axis = 0 : i64} : (tensor<4x3xi64>, tensor<2xi64>) -> tensor<2x3xi64>
  %z = "tessera.add"(%x, %s) : (tensor<5xi64>, tensor<i64>) -> tensor<5xi64>
  "func.return"(%y, %s, %z) : (tensor<2x3xi64>, tensor<i64>, tensor<5xi64>) -> ()
}
