// SPDX-License-Identifier: Apache-2.0
// Checks of numbers through the levels: they stay beside the ops, and become commands of the host program.
// RUN: tessera-opt %s | FileCheck %s --check-prefix=READ
// RUN: tessera-opt -tessera-graph %s | FileCheck %s --check-prefix=GRAPH
// RUN: tessera-aot build %s --until=program --dump=program --target=cpu:x86-64-v3 2>&1 | FileCheck %s --check-prefix=PROGRAM

// READ-LABEL: func.func @f(
// GRAPH-LABEL: func.func @f(
// PROGRAM: verify %{{[0-9]+}} between 0 and 1    verify-numerics.mlir:[[@LINE+12]]:3
func.func @f(%x: tensor<4x8xf32> {tessera.name = "x"}) -> (tensor<4x8xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer", tessera.rows_independent} {
  %0 = tessera.reduce_max %x {axes = [1]} : tensor<4x8xf32> -> tensor<4xf32>
  %1 = tessera.reshape %0 : tensor<4xf32> -> tensor<4x1xf32>
  %2 = tessera.sub %x, %1 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %3 = tessera.exp %2 : tensor<4x8xf32>
  %4 = tessera.sum %3 {axes = [1]} : tensor<4x8xf32> -> tensor<4xf32>
  %5 = tessera.reshape %4 : tensor<4xf32> -> tensor<4x1xf32>
  %6 = tessera.div %3, %5 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  // READ: tessera.verify.numerics %{{.*}} {bounded = [0, 1], stable} : tensor<4x8xf32>
  // GRAPH: tessera.verify.numerics
  tessera.verify.numerics %6 {stable, bounded = [0, 1]} : tensor<4x8xf32>
  return %6 : tensor<4x8xf32>
}
