// A row of -inf has no softmax, and no gradient.
func.func @entropy_of_nothing(%l: tensor<3xi1> {tessera.name = "l"}, %g: tensor<3xf32> {tessera.name = "g"}) -> (tensor<3x2xf32> {tessera.name = "r0"}, tensor<3xf32> {tessera.name = "r1"}) attributes {tessera.entry = "infer"} {
  %x = "tessera.constant"() {value = dense<[[0xFF800000, 0xFF800000], [1.0, 0xFF800000], [-2.0, 0.5]]> : tensor<3x2xf32>} : () -> tensor<3x2xf32>
  %i = "tessera.cast"(%l) : (tensor<3xi1>) -> tensor<3xi64>
  %y = "tessera.cross_entropy_grad"(%x, %i, %g) : (tensor<3x2xf32>, tensor<3xi64>, tensor<3xf32>) -> tensor<3x2xf32>
  %z = "tessera.cross_entropy"(%x, %i) : (tensor<3x2xf32>, tensor<3xi64>) -> tensor<3xf32>
  "func.return"(%y, %z) : (tensor<3x2xf32>, tensor<3xf32>) -> ()
}
