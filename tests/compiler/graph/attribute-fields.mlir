// SPDX-License-Identifier: Apache-2.0
// What breaks off in an attribute says which fields it has.
// RUN: tessera-opt --split-input-file --verify-diagnostics %s

func.func @sgd(%x: tensor<f32>) {
  tessera.minimize %x {optimizer = #tessera.sgd<lr = 0.1>} : tensor<f32> // expected-error {{expected ','; #tessera.sgd has lr, momentum, weight_decay}}
  return
}

// -----

func.func @nesterov(%x: tensor<f32>) {
  tessera.minimize %x {optimizer = #tessera.nesterov<lr = 0.1, decay = 0.1, momentum = 0.9>} : tensor<f32> // expected-error {{unknown struct parameter name: decay; #tessera.nesterov has lr, momentum, weight_decay}}
  return
}

// -----

func.func @adamw(%x: tensor<f32>) {
  tessera.minimize %x {optimizer = #tessera.adamw<lr = 0.1>} : tensor<f32> // expected-error {{expected ','; #tessera.adamw has lr, beta1, beta2, eps, weight_decay}}
  return
}

// -----

func.func @rules() {
  %0 = tessera.param {name = "w"} init = #tessera.uniform<1.0> : tensor<2xf32> // expected-error {{expected ','; #tessera.uniform has two numbers: low, high}}
  return
}
