// SPDX-License-Identifier: Apache-2.0
// run: -tessera-flatten
func.func @long(%s: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tessera.scan %s {
  ^bb0(%carry: tensor<2xf32>):
    %1 = tessera.tanh %carry : tensor<2xf32>
    tessera.yield %1 : tensor<2xf32>
  } {carried = 1 : i64, length = 1000000 : i64} : tensor<2xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
