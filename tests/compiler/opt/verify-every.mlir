// SPDX-License-Identifier: Apache-2.0
// Every error of the verifier, each once: of ops, in regions and of symbols.
// RUN: not tessera-opt %s > %t.out 2> %t.err
// RUN: FileCheck %s < %t.err
// RUN: grep -c "error:" %t.err | FileCheck %s --check-prefix=COUNT
// COUNT: {{^}}4{{$}}

// CHECK: verify-every.mlir:[[@LINE+2]]:8: error: [TSR-0106] tessera.sum
func.func @first(%x: tensor<4x3xf32>, %c: tensor<i1>) {
  %0 = tessera.sum %x {axes = [7]} : tensor<4x3xf32> -> tensor<4xf32>
  %1 = tessera.if %c {
    // CHECK: verify-every.mlir:[[@LINE+1]]:10: error: [TSR-0104] tessera.not
    %2 = tessera.not %x : tensor<4x3xf32>
    tessera.yield %x : tensor<4x3xf32>
  } else {
    tessera.yield %x : tensor<4x3xf32>
  } : tensor<i1> -> tensor<4x3xf32>
  // CHECK: verify-every.mlir:[[@LINE+1]]:3: error: [TSR-0012] 'func.call' op 'secnd' does not reference a valid function; did you mean '@second'?
  func.call @secnd(%x) : (tensor<4x3xf32>) -> ()
  return
}

func.func @second(%x: tensor<4x3xf32>) {
  // CHECK: verify-every.mlir:[[@LINE+1]]:8: error: [TSR-0106] tessera.softmax_safe
  %0 = tessera.softmax_safe %x {axis = 2} : tensor<4x3xf32>
  return
}
