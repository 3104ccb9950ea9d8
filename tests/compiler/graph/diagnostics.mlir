// SPDX-License-Identifier: Apache-2.0
// The text form, with the calls an inlined op came through; and JSON, one object a line.
// RUN: not tessera-opt -inline -tessera-autodiff %s 2>&1 | FileCheck %s
// RUN: not tessera-opt -inline -tessera-autodiff --diagnostics=json %s 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: echo "func.func @f( {" | not tessera-opt 2>&1 | FileCheck %s --check-prefix=SYNTAX
// RUN: not tessera-opt %s.absent 2>&1 | FileCheck %s --check-prefix=ABSENT
// RUN: not tessera-opt -no-such-pass %s 2>&1 | FileCheck %s --check-prefix=PASS
// RUN: not tessera-opt %s %s 2>&1 | FileCheck %s --check-prefix=TWO

// SYNTAX: -:1:14: error: [TSR-0001] expected
// SYNTAX-NEXT: func.func @f( {
// SYNTAX-NEXT: {{^}}             ^
// ABSENT: tessera-opt: cannot open '{{.*}}diagnostics.mlir.absent'
// PASS: 'no-such-pass' does not refer to a registered pass
// TWO: tessera-opt: two input files

func.func private @helper(%w: tensor<3xf32>, %x: tensor<2x3xf32>) -> tensor<f32> {
  // CHECK: diagnostics.mlir:[[@LINE+7]]:10: error: [TSR-0305] tessera.batch_norm_train: no gradient passes through the running mean and variance
  // CHECK-NEXT:   %0:3 = tessera.batch_norm_train %x
  // CHECK-NEXT: {{^}}         ^
  // CHECK-NEXT: diagnostics.mlir:[[@LINE+10]]:11: note: called from here
  // CHECK-NEXT:   %loss = call @helper
  // CHECK-NEXT: {{^}}          ^
  // JSON: {"number":"TSR-0305","severity":"error","file":"diagnostics.mlir","line":[[@LINE+1]],"column":10,"text":"tessera.batch_norm_train: no gradient passes through the running mean and variance","notes":[{"severity":"note","file":"diagnostics.mlir","line":[[@LINE+7]],"column":11,"text":"called from here"}]}
  %0:3 = tessera.batch_norm_train %x, %w, %w, %w, %w {axis = 1} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  %loss = tessera.sum %0#1 {axes = [0]} : tensor<3xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
func.func @f(%x: tensor<2x3xf32>) -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<3xf32>
  %loss = call @helper(%w, %x) : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 0.1, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}
