// SPDX-License-Identifier: Apache-2.0
// run: -tessera-flatten
func.func @open(%s: tensor<2xf32>, %x: tensor<?x2xf32>) -> tensor<2xf32> {
  %0 = tessera.scan %s, %x {
  ^bb0(%carry: tensor<2xf32>, %row: tensor<2xf32>):
    tessera.yield %row : tensor<2xf32>
  } {carried = 1 : i64} : (tensor<2xf32>, tensor<?x2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
