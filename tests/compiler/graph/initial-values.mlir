// SPDX-License-Identifier: Apache-2.0
// However an initial value is written, what is printed has the tensor's type, and reads back as the same module.
//
// RUN: tessera-opt %s > %t.once
// RUN: FileCheck %s < %t.once
// RUN: tessera-opt %t.once | diff %t.once -

// CHECK-LABEL: @values
func.func @values() -> tensor<4xf32> {
  // CHECK: tessera.param "a" init = #tessera.uniform<-0.1, 0.1> : tensor<4xf32>
  %a = tessera.param {name = "a", init = #tessera.uniform<-0.1, 0.1>} : tensor<4xf32>
  // CHECK: tessera.param "b" init = #tessera.constant<1.0> : tensor<4xf32>
  %b = tessera.param "b" {init = #tessera.constant<1.0> : tensor<4xf32>} : tensor<4xf32>
  // CHECK: tessera.param "c" init = #tessera.normal<0.0, 1.0> : tensor<4xf32>
  %c = tessera.param "c" init = #tessera.normal<0.0, 1.0> : tensor<4xf32>
  // CHECK: tessera.param "d" data = dense<1.000000e+00> : tensor<4xf32>
  %d = tessera.param {name = "d", data = dense<1.0> : tensor<4xf32>} : tensor<4xf32>
  // CHECK: tessera.param "e" : tensor<4xf32>
  %e = tessera.param {name = "e"} : tensor<4xf32>
  // CHECK: tessera.opt.state "f" of "a" kind "adam_m" init = #tessera.constant<0.0> : tensor<4xf32>
  %f = tessera.opt.state {name = "f", of = "a", kind = "adam_m", init = #tessera.constant<0.0>} : tensor<4xf32>
  // CHECK: tessera.opt.state "g" init = #tessera.constant<0.0> : tensor<4xf32>
  %g = "tessera.opt.state"() <{name = "g", init = #tessera.constant<0.0>}> : () -> tensor<4xf32>
  return %a : tensor<4xf32>
}
