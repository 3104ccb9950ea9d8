// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt -tessera-flatten --no-output -split-input-file %s 2>&1 | FileCheck %s

func.func @long(%s: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: tessera-flatten-invalid.mlir:[[@LINE+1]]:8: error: [TSR-0307] tessera.scan: 1000000 iterations of 6 ops; a loop can become at most 65536 ops
  %0 = tessera.scan %s {
  ^bb0(%carry: tensor<2xf32>):
    %1 = tessera.tanh %carry : tensor<2xf32>
    tessera.yield %1 : tensor<2xf32>
  } {carried = 1 : i64, length = 1000000 : i64} : tensor<2xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @open(%s: tensor<2xf32>, %x: tensor<?x2xf32>) -> tensor<2xf32> {
  // CHECK: error: [TSR-0307] tessera.scan: the number of iterations must be known
  %0 = tessera.scan %s, %x {
  ^bb0(%carry: tensor<2xf32>, %row: tensor<2xf32>):
    tessera.yield %row : tensor<2xf32>
  } {carried = 1 : i64} : (tensor<2xf32>, tensor<?x2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
