// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt --verify-diagnostics --split-input-file --no-output %s 2>&1 | FileCheck %s
// RUN: not tessera-opt --verify-diagnostics --diagnostics=json %s 2>&1 | FileCheck %s --check-prefix=BOTH
// BOTH: --verify-diagnostics compares, and prints no JSON

// CHECK: expect-wrong.mlir:[[@LINE+2]]:8: unexpected error: [TSR-0103] tessera.add: shapes do not broadcast
func.func @f(%a: tensor<4xf32>, %b: tensor<5xf32>) {
  %0 = tessera.add %a, %b : (tensor<4xf32>, tensor<5xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @f() {
  // CHECK: expect-wrong.mlir:[[@LINE+1]]: expected error at line [[@LINE+2]], got none: never said
  // expected-error@+1 {{never said}}
  return
}

// -----

func.func @f(%a: tensor<4xf32>, %b: tensor<5xf32>) {
  // The words, but another line; and a warning is no error.
  // CHECK: unexpected error: [TSR-0103]
  // CHECK: [[@LINE+2]]: expected error at line [[@LINE+2]], got none
  // CHECK: [[@LINE+2]]: expected warning at line [[@LINE+3]], got none
  // expected-error {{shapes do not broadcast}}
  // expected-warning@+1 {{shapes do not broadcast}}
  %0 = tessera.add %a, %b : (tensor<4xf32>, tensor<5xf32>) -> tensor<5xf32>
  return
}

// -----

// CHECK: [[@LINE+1]]: 'eror {{{{x}}}}' is not an expectation
// expected-eror {{x}}
func.func @f() {
  return
}
