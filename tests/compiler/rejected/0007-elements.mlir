// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  %0 = tessera.constant dense<[0
// expand: 16777216 ,0
]> : tensor<16777217xi64>
  return
}
