// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<2x4x6xf32>) {
  %0:4 = tessera.moe_route %a {k = 2, capacity = 0} : (tensor<2x4x6xf32>) -> (tensor<2x4x2xf32>, tensor<2x4x2xi64>, tensor<f32>, tensor<6xi64>)
  return
}
