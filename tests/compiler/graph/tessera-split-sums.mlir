// SPDX-License-Identifier: Apache-2.0
// With numerics "native" sums over many rows of several dims are taken in two steps; others, and all of portable numerics, in one.
// RUN: tessera-opt -tessera-split-sums %s | FileCheck %s
// RUN: sed 's/"native"/"portable"/' %s | tessera-opt -tessera-split-sums | FileCheck %s --check-prefix=PORTABLE
// PORTABLE-COUNT-6: tessera.sum
// PORTABLE-NOT: tessera.sum
module attributes {tessera.numerics = "native"} {
// CHECK-LABEL: func.func @sums
func.func @sums(%x: tensor<4x8x512x96xf32>, %few: tensor<4x512x96xf32>, %h: tensor<4x2048x96xf64>)
    -> (tensor<96xf32>, tensor<512x96xf32>, tensor<96xf32>, tensor<96xf64>, tensor<4x96xf32>, tensor<f32>) {
  // CHECK-NEXT: %[[A:.*]] = tessera.sum %arg0 {axes = [1, 2]} : tensor<4x8x512x96xf32> -> tensor<4x96xf32>
  // CHECK-NEXT: tessera.sum %[[A]] {axes = [0]} : tensor<4x96xf32> -> tensor<96xf32>
  %0 = tessera.sum %x {axes = [0, 1, 2]} : tensor<4x8x512x96xf32> -> tensor<96xf32>
  // CHECK-NEXT: tessera.sum %arg0 {axes = [0, 1]}
  %1 = tessera.sum %x {axes = [0, 1]} : tensor<4x8x512x96xf32> -> tensor<512x96xf32>
  // CHECK-NEXT: tessera.sum %arg1 {axes = [0, 1]}
  %2 = tessera.sum %few {axes = [0, 1]} : tensor<4x512x96xf32> -> tensor<96xf32>
  // CHECK-NEXT: tessera.sum %arg2 {axes = [0, 1]}
  %3 = tessera.sum %h {axes = [0, 1]} : tensor<4x2048x96xf64> -> tensor<96xf64>
  // CHECK-NEXT: tessera.sum %arg0 {axes = [1, 2]}
  %4 = tessera.sum %x {axes = [1, 2]} : tensor<4x8x512x96xf32> -> tensor<4x96xf32>
  // CHECK-NEXT: tessera.sum %arg1 {axes = [0, 1, 2]}
  %5 = tessera.sum %few {axes = [0, 1, 2]} : tensor<4x512x96xf32> -> tensor<f32>
  return %0, %1, %2, %3, %4, %5 : tensor<96xf32>, tensor<512x96xf32>, tensor<96xf32>, tensor<96xf64>, tensor<4x96xf32>, tensor<f32>
}
}
