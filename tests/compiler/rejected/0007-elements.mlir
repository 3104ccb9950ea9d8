// SPDX-License-Identifier: Apache-2.0
// one fewer is accepted
func.func @f() {
  %0 = tessera.constant dense<[0
// expand: 16777216 ,0
]> : tensor<{n+1}xi64>
  return
}
