// SPDX-License-Identifier: Apache-2.0
func.func @f(%q: tensor<1x2x3x4xf32>) {
  %0 = tessera.attention %q, %q, %q {casual} : tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}
