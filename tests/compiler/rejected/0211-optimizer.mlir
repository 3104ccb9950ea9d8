// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  %0 = "tessera.param"() <{name = "w", init = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>}> : () -> tensor<4xf32>
  return
}
