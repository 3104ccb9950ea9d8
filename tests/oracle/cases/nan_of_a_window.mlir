// SPDX-License-Identifier: Apache-2.0
// A window that holds NaN gave its gradient to nobody; the first NaN is its largest element.
func.func @nan_of_a_window(%v1: tensor<1x2x2x9xf32> {tessera.name = "v1"}, %v2: tensor<1x1x1x9xf32> {tessera.name = "v2"}) -> (tensor<1x3x3x9xf32> {tessera.name = "r0"}, tensor<1x3x3x9xf32> {tessera.name = "r1"}) attributes {tessera.entry = "infer"} {
  %k = "tessera.constant"() {value = dense<[[[[0.0,1.0,0x7FC00000,4.0,-4.0,3.0,-1.0,-4.0,-2.0],[-3.0,1.0,3.0,-1.0,2.0,4.0,-3.0,-1.0,-4.0],[-1.0,2.0,0.0,-2.0,2.0,-2.0,-3.0,-2.0,3.0]],[[-2.0,-2.0,-4.0,-4.0,-1.0,-1.0,-2.0,-2.0,0x7FC00000],[0.0,0x7FC00000,1.0,-1.0,4.0,-1.0,-2.0,-1.0,2.0],[0.0,-4.0,1.0,2.0,-2.0,-2.0,0.0,-3.0,0x7FC00000]],[[1.0,0.0,-4.0,1.0,-3.0,0.0,1.0,0.0,3.0],[1.0,-2.0,3.0,3.0,-2.0,-4.0,0.0,-4.0,1.0],[2.0,-4.0,0x7FC00000,4.0,2.0,1.0,2.0,-4.0,3.0]]]]> : tensor<1x3x3x9xf32>} : () -> tensor<1x3x3x9xf32>
  %v3 = "tessera.max_pool2d_grad"(%k, %v1) {window = [2, 2], strides = [1, 1], padding = [0, 0, 0, 0]} : (tensor<1x3x3x9xf32>, tensor<1x2x2x9xf32>) -> tensor<1x3x3x9xf32>
  %v4 = "tessera.max_pool2d_grad"(%k, %v2) {window = [3, 3], strides = [3, 3], padding = [0, 0, 0, 0]} : (tensor<1x3x3x9xf32>, tensor<1x1x1x9xf32>) -> tensor<1x3x3x9xf32>
  "func.return"(%v3, %v4) : (tensor<1x3x3x9xf32>, tensor<1x3x3x9xf32>) -> ()
}
