// SPDX-License-Identifier: Apache-2.0
// run: '-canonicalize{test-convergence=true max-iterations=1}'
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tessera.transpose %a {permutation = [0]} : tensor<4xf32> -> tensor<4xf32>
  %1 = tessera.transpose %0 {permutation = [0]} : tensor<4xf32> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
