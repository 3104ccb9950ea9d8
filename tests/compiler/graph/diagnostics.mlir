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

func.func private @helper(%w: tensor<2x3xf32>, %l: tensor<2xi64>, %d: tensor<2xf32>) -> tensor<f32> {
  // CHECK: diagnostics.mlir:[[@LINE+7]]:8: error: [TSR-0301] tessera.cross_entropy_grad: this op has no gradient rule
  // CHECK-NEXT:   %0 = tessera.cross_entropy_grad %w
  // CHECK-NEXT: {{^}}       ^
  // CHECK-NEXT: diagnostics.mlir:[[@LINE+10]]:11: note: called from here
  // CHECK-NEXT:   %loss = call @helper
  // CHECK-NEXT: {{^}}          ^
  // JSON: {"number":"TSR-0301","severity":"error","file":"diagnostics.mlir","line":[[@LINE+1]],"column":8,"text":"tessera.cross_entropy_grad: this op has no gradient rule","notes":[{"severity":"note","file":"diagnostics.mlir","line":[[@LINE+7]],"column":11,"text":"called from here"}]}
  %0 = tessera.cross_entropy_grad %w, %l, %d : tensor<2x3xf32>, tensor<2xi64>, tensor<2xf32> -> tensor<2x3xf32>
  %loss = tessera.sum %0 {axes = [0, 1]} : tensor<2x3xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
func.func @f(%l: tensor<2xi64>, %d: tensor<2xf32>) -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<2x3xf32>
  %loss = call @helper(%w, %l, %d) : (tensor<2x3xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 0.1, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}
