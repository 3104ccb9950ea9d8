// A window of -inf gives its gradient to its first element, not to the padding before that.
func.func @padding_of_a_window(%g: tensor<1x3x2x1xf32> {tessera.name = "g"}) -> (tensor<1x3x2x1xf32> {tessera.name = "r0"}) attributes {tessera.entry = "infer"} {
  %x = "tessera.constant"() {value = dense<[[[[0xFF800000], [1.0]], [[2.0], [0xFF800000]], [[0xFF800000], [0xFF800000]]]]> : tensor<1x3x2x1xf32>} : () -> tensor<1x3x2x1xf32>
  %y = "tessera.max_pool2d_grad"(%x, %g) {window = [2, 1], strides = [1, 1], padding = [1, 0, 0, 0]} : (tensor<1x3x2x1xf32>, tensor<1x3x2x1xf32>) -> tensor<1x3x2x1xf32>
  "func.return"(%y) : (tensor<1x3x2x1xf32>) -> ()
}
