// SPDX-License-Identifier: Apache-2.0
// The size of an open dim, as a group reads it.
// RUN: tessera-opt %s | FileCheck %s

// CHECK: %[[N:.*]] = tsched.dim : tensor<i64>
// CHECK: return %[[N]] : tensor<i64>
func.func @f() -> tensor<i64> {
  %n = tsched.dim : tensor<i64>
  return %n : tensor<i64>
}
