// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt --tessera-autodiff --no-output -split-input-file %s 2>&1 | FileCheck %s

func.func @overflow(%x: tensor<4xf32>) {
  // CHECK: param-groups-invalid.mlir:[[@LINE+1]]:8: error: [TSR-0129] tessera.param: the learning rate of 'w' is lr * lr_factor = 1e+10 * 1e+308 = inf; expected a finite number that is not 0
  %w = tessera.param "w" {lr_factor = 1.0e308} init = #tessera.constant<1.0> : tensor<4xf32>
  %y = tessera.mul %x, %w : tensor<4xf32>
  %loss = tessera.mean %y {axes = [0]} : tensor<4xf32> -> tensor<f32>
  // CHECK: param-groups-invalid.mlir:[[@LINE+1]]:3: note: lr is given here
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0e10, momentum = 0.9, weight_decay = 0.0>} : tensor<f32>
  return
}

// -----

// Both are more than 0, and their product is less than the least f64.
func.func @underflow(%x: tensor<4xf32>) {
  // CHECK: error: [TSR-0129] tessera.param: the learning rate of 'w' is lr * lr_factor = 1e-200 * 1e-200 = 0; expected a finite number that is not 0
  %w = tessera.param "w" {lr_factor = 1.0e-200, no_decay} init = #tessera.constant<1.0> : tensor<4xf32>
  %y = tessera.mul %x, %w : tensor<4xf32>
  %loss = tessera.mean %y {axes = [0]} : tensor<4xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 1.0e-200, beta1 = 0.9, beta2 = 0.9, eps = 1.0e-8, weight_decay = 0.5>} : tensor<f32>
  return
}

// -----

// A learning rate of 0 stays 0 with any factor.
// CHECK-NOT: error
func.func @zero(%x: tensor<4xf32>) {
  %w = tessera.param "w" {lr_factor = 1.0e308} init = #tessera.constant<1.0> : tensor<4xf32>
  %y = tessera.mul %x, %w : tensor<4xf32>
  %loss = tessera.mean %y {axes = [0]} : tensor<4xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.0, momentum = 0.9, weight_decay = 0.0>} : tensor<f32>
  return
}
