// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -canonicalize %s | FileCheck %s

// Results that are operands.
// CHECK-LABEL: func.func @operands(
// CHECK-SAME: %[[X:.*]]: tensor<4x3xf32>
func.func @operands(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) {
  %one = tessera.constant dense<1.0> : tensor<f32>
  %zero = tessera.constant dense<0.0> : tensor<f32>
  %true = tessera.constant dense<true> : tensor<i1>
  %0 = tessera.mul %x, %one : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %1 = tessera.div %0, %one : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %2 = tessera.sub %1, %zero : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %3 = tessera.neg %x : tensor<4x3xf32>
  %4 = tessera.neg %3 : tensor<4x3xf32>
  %5 = tessera.reshape %x : tensor<4x3xf32> -> tensor<12xf32>
  %6 = tessera.reshape %5 : tensor<12xf32> -> tensor<4x3xf32>
  %7 = tessera.transpose %x {permutation = [0, 1]} : tensor<4x3xf32>
  %8 = tessera.where %true, %x, %zero : (tensor<i1>, tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %9 = tessera.sum %x {axes = []} : tensor<4x3xf32>
  // CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
  return %2, %4, %6, %7, %8, %9 : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>
}

// Constants, rounded to their type: 1/3 in f32, then cast.
// CHECK-LABEL: func.func @constants
func.func @constants() -> (tensor<f64>, tensor<2x2xf32>) {
  // CHECK-DAG: %[[THIRD:.*]] = tessera.constant dense<0.33333334326744{{[0-9]*}}> : tensor<f64>
  // CHECK-DAG: %[[ROOT:.*]] = tessera.constant dense<1.41421354> : tensor<2x2xf32>
  %one = tessera.constant dense<1.0> : tensor<f32>
  %two = tessera.add %one, %one : tensor<f32>
  %three = tessera.add %two, %one : tensor<f32>
  %third = tessera.div %one, %three : tensor<f32>
  %wide = tessera.cast %third : tensor<f32> -> tensor<f64>
  %root = tessera.sqrt %two : tensor<f32>
  %all = tessera.broadcast %root : tensor<f32> -> tensor<2x2xf32>
  // CHECK: return %[[THIRD]], %[[ROOT]]
  return %wide, %all : tensor<f64>, tensor<2x2xf32>
}

// What is taken in its order, and whole.
// CHECK-LABEL: func.func @taken
// CHECK-SAME: (%[[X:.*]]: tensor<4x3xf32>)
func.func @taken(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<2x3xf32>) {
  // CHECK: %[[FIRST:.*]] = tessera.iota
  %all = tessera.iota {axis = 0 : i64} : tensor<4xi32>
  %first = tessera.iota {axis = 0 : i64} : tensor<2xi32>
  // CHECK-NOT: tessera.gather %[[X]], %{{.*}} -> tensor<4x3xf32>
  %0 = tessera.gather %x, %all {axis = 0 : i64} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<4x3xf32>
  // CHECK: %[[HALF:.*]] = tessera.gather %[[X]], %[[FIRST]]
  %1 = tessera.gather %x, %first {axis = 0 : i64} : (tensor<4x3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
  // CHECK: return %[[X]], %[[HALF]]
  return %0, %1 : tensor<4x3xf32>, tensor<2x3xf32>
}

// What would change bits stays: x + 0 of -0, x - (-0), a stretched x * 1, 0/0.
// CHECK-LABEL: func.func @kept
func.func @kept(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<2x3xf32>, tensor<f32>) {
  %zero = tessera.constant dense<0.0> : tensor<f32>
  %minus = tessera.constant dense<-0.0> : tensor<f32>
  %ones = tessera.constant dense<1.0> : tensor<2x3xf32>
  // CHECK: tessera.add
  %0 = tessera.add %x, %zero : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  // CHECK: tessera.sub
  %1 = tessera.sub %x, %minus : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  // CHECK: tessera.mul
  %2 = tessera.mul %x, %ones : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: tessera.div
  %3 = tessera.div %zero, %zero : tensor<f32>
  return %0, %1, %2, %3 : tensor<3xf32>, tensor<3xf32>, tensor<2x3xf32>, tensor<f32>
}
