// SPDX-License-Identifier: Apache-2.0
// One parse error for each function, with the form of the op, and every error of the verifier.
// RUN: not tessera-opt %s > %t.out 2> %t.err
// RUN: FileCheck %s < %t.err
// RUN: grep -c "error:" %t.err | FileCheck %s --check-prefix=COUNT
// COUNT: {{^}}7{{$}}

// CHECK: every-error.mlir:[[@LINE+3]]:35: error: [TSR-0001] expected ':'
// CHECK: note: form: %result = tessera.relu %input : type
func.func @first(%x: tensor<4xf32>) {
  %0 = tessera.relu %x {slope = 1}
  %1 = tessera.exp %x tensor<4xf32>
  return
}

// A line that ends too early belongs to its op; comments and strings name none.
func.func @second(%x: tensor<4xf32>) {
  // CHECK: every-error.mlir:[[@LINE+1]]:59: error: [TSR-0001] expected
  %0 = tessera.sum %x {axes = [0], note = "tessera.log"} : = // tessera.exp in a comment
  // CHECK: note: form: %result = tessera.sum %input {axes = [integer, ...]} : type [-> type]
  return
}

// A name that does not exist; the value after it is defined in the same function.
func.func @third(%x: tensor<4xf32>) {
  // CHECK: every-error.mlir:[[@LINE+1]]:8: error: [TSR-0009] custom op 'tessera.reduce_sum' is unknown; did you mean 'tessera.sum'?
  %0 = tessera.reduce_sum %x {axes = [0]} : tensor<4xf32>
  return
}

// Functions that can be parsed are verified.
func.func @fourth(%x: tensor<4x3xf32>, %y: tensor<5xf32>) {
  // CHECK: every-error.mlir:[[@LINE+1]]:8: error: [TSR-0103] tessera.add
  %0 = tessera.add %x, %y : (tensor<4x3xf32>, tensor<5xf32>) -> tensor<4x3xf32>
  // CHECK: every-error.mlir:[[@LINE+1]]:8: error: [TSR-0106] tessera.sum
  %1 = tessera.sum %x {axes = [7]} : tensor<4x3xf32> -> tensor<4xf32>
  // CHECK: every-error.mlir:[[@LINE+1]]:8: error: [TSR-0152] tessera.exp: there is no attribute 'slop'
  %2 = tessera.exp %x {slop = 1} : tensor<4x3xf32>
  return
}

func.func @fifth(%x: tensor<4x3xf32>) {
  // CHECK: every-error.mlir:[[@LINE+1]]:8: error: [TSR-0113] tessera.mean
  %0 = tessera.mean %x {axes = [0]} : tensor<4x3xf32> -> tensor<4x3xf32>
  return
}
