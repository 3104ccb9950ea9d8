// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-lower-experts %s | FileCheck %s
// RUN: tessera-opt -tessera-decompose %s | FileCheck %s --check-prefix=DECOMPOSED

// Rows of one table: 3 experts of 4 slots, and one row for no slot, for each of 2 groups.
// DECOMPOSED-LABEL: func.func @dispatch
// DECOMPOSED: tessera.moe_dispatch
// CHECK-LABEL: func.func @dispatch
// CHECK: tessera.scatter_add {{.*}} {axis = 0 : i64} : (tensor<26x7xf32>, tensor<20xi64>, tensor<20x7xf32>)
// CHECK: tessera.slice {{.*}} {size = [2, 12, 7], start = [0, 0, 0]}
// CHECK-NOT: tessera.moe
func.func @dispatch(%x: tensor<2x5x7xf32>, %slots: tensor<2x5x2xi64>) -> tensor<3x2x4x7xf32> {
  %0 = tessera.moe_dispatch %x, %slots {experts = 3, capacity = 4} : (tensor<2x5x7xf32>, tensor<2x5x2xi64>) -> tensor<3x2x4x7xf32>
  return %0 : tensor<3x2x4x7xf32>
}

// CHECK-LABEL: func.func @combine
// CHECK: tessera.pad
// CHECK: tessera.gather {{.*}} {axis = 0 : i64} : (tensor<26x7xf32>, tensor<20xi64>)
// CHECK: tessera.sum {{.*}} {axes = [2]}
func.func @combine(%y: tensor<3x2x4x7xf32>, %slots: tensor<2x5x2xi64>, %w: tensor<2x5x2xf32>) -> tensor<2x5x7xf32> {
  %0 = tessera.moe_combine %y, %slots, %w : (tensor<3x2x4x7xf32>, tensor<2x5x2xi64>, tensor<2x5x2xf32>) -> tensor<2x5x7xf32>
  return %0 : tensor<2x5x7xf32>
}

// CHECK-LABEL: func.func @dot
// CHECK: tessera.sum {{.*}} {axes = [3]}
func.func @dot(%y: tensor<3x2x4x7xf32>, %slots: tensor<2x5x2xi64>, %x: tensor<2x5x7xf32>) -> tensor<2x5x2xf32> {
  %0 = tessera.moe_dot %y, %slots, %x : (tensor<3x2x4x7xf32>, tensor<2x5x2xi64>, tensor<2x5x7xf32>) -> tensor<2x5x2xf32>
  return %0 : tensor<2x5x2xf32>
}
