// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-fold-transposes -canonicalize %s | FileCheck %s
// RUN: tessera-opt -tessera-graph %s | FileCheck %s --check-prefix=ALL
// The bits stay.
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v3
// RUN: tessera-run %t.tsb --entry bits --output y=%t.y.npy --output z=%t.z.npy
// RUN: cmp %t.y.npy %t.z.npy

// CHECK-LABEL: @both
func.func @both(%a: tensor<5x3xf32> {tessera.name = "a"}, %b: tensor<4x5xf32> {tessera.name = "b"})
    -> (tensor<3x4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.transpose %a {permutation = [1, 0]} : tensor<5x3xf32> -> tensor<3x5xf32>
  %1 = tessera.transpose %b {permutation = [1, 0]} : tensor<4x5xf32> -> tensor<5x4xf32>
  // CHECK-NEXT: tessera.matmul %arg0, %arg1 {transpose_a = true, transpose_b = true} : (tensor<5x3xf32>, tensor<4x5xf32>) -> tensor<3x4xf32>
  // CHECK-NEXT: return
  // ALL: tessera.matmul %arg0, %arg1 {transpose_a = true, transpose_b = true}
  %2 = tessera.matmul %0, %1 : (tensor<3x5xf32>, tensor<5x4xf32>) -> tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}

// Batches, and a flag that was there.
// CHECK-LABEL: @batches
func.func @batches(%a: tensor<2x3x5xf32> {tessera.name = "a"}, %b: tensor<2x4x5xf32> {tessera.name = "b"})
    -> (tensor<2x3x4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.transpose %b {permutation = [0, 2, 1]} : tensor<2x4x5xf32> -> tensor<2x5x4xf32>
  %1 = tessera.transpose %0 {permutation = [0, 2, 1]} : tensor<2x5x4xf32> -> tensor<2x4x5xf32>
  // CHECK-NEXT: tessera.matmul %arg0, %arg1 {transpose_b = true} : (tensor<2x3x5xf32>, tensor<2x4x5xf32>) -> tensor<2x3x4xf32>
  %2 = tessera.matmul %a, %1 {transpose_b = true} : (tensor<2x3x5xf32>, tensor<2x4x5xf32>) -> tensor<2x3x4xf32>
  return %2 : tensor<2x3x4xf32>
}

// Other permutations move batches, and stay; so does a transpose that others read.
// CHECK-LABEL: @others
func.func @others(%a: tensor<5x2x3xf32> {tessera.name = "a"}, %b: tensor<3x4xf32> {tessera.name = "b"})
    -> (tensor<2x5x4xf32> {tessera.name = "y"}, tensor<4x3xf32> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  // CHECK-NEXT: tessera.transpose %arg0
  %0 = tessera.transpose %a {permutation = [1, 0, 2]} : tensor<5x2x3xf32> -> tensor<2x5x3xf32>
  // CHECK-NEXT: tessera.transpose %arg1
  %1 = tessera.transpose %b {permutation = [1, 0]} : tensor<3x4xf32> -> tensor<4x3xf32>
  // CHECK-NEXT: tessera.matmul %{{.*}}, %arg1 : (tensor<2x5x3xf32>, tensor<3x4xf32>)
  %2 = tessera.matmul %0, %1 {transpose_b = true} : (tensor<2x5x3xf32>, tensor<4x3xf32>) -> tensor<2x5x4xf32>
  return %2, %1 : tensor<2x5x4xf32>, tensor<4x3xf32>
}

// A maximum of one value with itself stands between: that product reads what was moved.
// CHECK-LABEL: @bits
// ALL-LABEL: @bits
func.func @bits() -> (tensor<33x45xf32> {tessera.name = "y"}, tensor<33x45xf32> {tessera.name = "z"})
    attributes {tessera.entry = "infer"} {
  %i = tessera.iota {axis = 0 : i64} : tensor<21x33xf32>
  %j = tessera.iota {axis = 1 : i64} : tensor<21x33xf32>
  %k = tessera.mul %i, %j : tensor<21x33xf32>
  %c = tessera.constant dense<0.0137> : tensor<f32>
  %0 = tessera.mul %k, %c : (tensor<21x33xf32>, tensor<f32>) -> tensor<21x33xf32>
  %a = tessera.erf %0 : tensor<21x33xf32>
  %b = tessera.slice %a {start = [0, 0], size = [21, 33]} : tensor<21x33xf32>
  %w = tessera.pad %b {low = [0, 7], high = [0, 5], value = 0.3} : tensor<21x33xf32> -> tensor<21x45xf32>
  %t = tessera.transpose %a {permutation = [1, 0]} : tensor<21x33xf32> -> tensor<33x21xf32>
  %u = tessera.max %t, %t : tensor<33x21xf32>
  // ALL-DAG: tessera.matmul {{.*}} {transpose_a = true} : (tensor<21x33xf32>,
  // ALL-DAG: tessera.matmul {{.*}} : (tensor<33x21xf32>,
  %y = tessera.matmul %t, %w : (tensor<33x21xf32>, tensor<21x45xf32>) -> tensor<33x45xf32>
  %z = tessera.matmul %u, %w : (tensor<33x21xf32>, tensor<21x45xf32>) -> tensor<33x45xf32>
  return %y, %z : tensor<33x45xf32>, tensor<33x45xf32>
}
