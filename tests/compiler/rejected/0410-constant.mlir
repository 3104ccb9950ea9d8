// SPDX-License-Identifier: Apache-2.0
tsched.func @f(%a: tensor<4xf32>) -> tensor<4xf32> attributes {kind = "map"} {
  %0 = tessera.param "w" init = #tessera.constant<0.0> : tensor<4xf32>
  tsched.return %0 : tensor<4xf32>
}
