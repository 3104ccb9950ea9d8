// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  %0 = tessera.param "w" init = #tessera.unifrom<-1.0, 1.0> : tensor<4xf32>
  return
}
