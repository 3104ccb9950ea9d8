// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-verify --verify-diagnostics --split-input-file --no-output %s

func.func @f(%a: tensor<4xf32>, %b: tensor<5xf32>) {
  // expected-error@+1 {{[TSR-0103] tessera.add: shapes do not broadcast}}
  %0 = tessera.add %a, %b : (tensor<4xf32>, tensor<5xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @f() {
  // expected-note@+1 {{declared first here}}
  %0 = tessera.param "w" init = #tessera.constant<0.0> : tensor<2xf32>
  %1 = tessera.param "w" init = #tessera.constant<1.0> : tensor<2xf32> // expected-error {{declared in two ways}}
  return
}

// -----

// expected-error@below {{'@f' has no body}}
func.func private @f()

// -----

func.func @fine() {
  return
}
