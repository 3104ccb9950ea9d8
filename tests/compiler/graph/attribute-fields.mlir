// SPDX-License-Identifier: Apache-2.0
// What breaks off in an attribute says which fields it has; how attributes are written; how many operands and results there may be.
// RUN: tessera-opt --split-input-file --verify-diagnostics %s

func.func @sgd(%x: tensor<f32>) {
  tessera.minimize %x {optimizer = #tessera.sgd<momentum = 0.1>} : tensor<f32> // expected-error {{struct is missing required parameter: lr; #tessera.sgd has lr, [momentum], [weight_decay]}}
  return
}

// -----

func.func @nesterov(%x: tensor<f32>) {
  tessera.minimize %x {optimizer = #tessera.nesterov<lr = 0.1, decay = 0.1, momentum = 0.9>} : tensor<f32> // expected-error {{unknown struct parameter name: decay; #tessera.nesterov has lr, momentum, [weight_decay]}}
  return
}

// -----

func.func @adamw(%x: tensor<f32>) {
  tessera.minimize %x {optimizer = #tessera.adamw<lr 0.1>} : tensor<f32> // expected-error {{expected '='; #tessera.adamw has lr, [beta1], [beta2], [eps], [weight_decay]}}
  return
}

// -----

func.func @rules() {
  %0 = tessera.param {name = "w"} init = #tessera.uniform<1.0> : tensor<2xf32> // expected-error {{expected ','; #tessera.uniform has two numbers: low, high}}
  return
}

// -----

// What is of another kind says how it is written.
func.func @flag(%x: tensor<2x3xf32>) {
  %0 = tessera.cumsum %x {axis = 1, reverse} : tensor<2x3xf32> // expected-error {{bool attribute; write 'reverse = true' or false}}
  return
}

// -----

func.func @unit(%q: tensor<1x2x3x4xf32>) {
  %0 = tessera.attention %q, %q, %q {causal = true} : tensor<1x2x3x4xf32> // expected-error {{unit attribute; write 'causal' alone, or leave it out}}
  return
}

// -----

func.func @whole(%x: tensor<2x3xf32>) {
  %0 = tessera.softmax_safe %x {axis = 1.0} : tensor<2x3xf32> // expected-error {{integer attribute; write 'axis = 3'}}
  return
}

// -----

func.func @wholes(%x: tensor<2x3xf32>) {
  %0 = tessera.sum %x {axes = 1} : tensor<2x3xf32> -> tensor<2xf32> // expected-error {{integer array attribute; write 'axes = [0, 2]'}}
  return
}

// -----

func.func @number(%x: tensor<2x3xf32>) {
  %0 = tessera.clamp %x {low = 1, high = 2.0} : tensor<2x3xf32> // expected-error {{float attribute; write 'low = 2.0', with a point}}
  return
}

// -----

func.func @many(%x: tensor<66xf32>) {
  // expected-error@+1 {{tessera.split: has 1 operands and 66 results; at most 64 and 64 are accepted}}
  %0:66 = "tessera.split"(%x) {axis = 0 : i64} : (tensor<66xf32>) -> (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>)
  return
}
