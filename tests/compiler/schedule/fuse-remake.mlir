// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -split-input-file -tessera-graph -tsched-fuse %s | FileCheck %s

// A kernel that goes over rows takes what a norm made of them anew, from what the norm read and two numbers of each row: x without its
// mean, over its size, is not stored.
// CHECK-LABEL: func.func @again(
// CHECK: %[[N:.*]]:3 = tsched.call @[[NORM:k[a-z_0-9]*]](%arg0, %arg2)
// CHECK: %[[M:.*]] = tsched.call @k1_matmul(%[[N]]#2, %arg1)
// CHECK: tsched.call @[[LAST:k2_sub_mul_[a-z_0-9]*]](%arg0, %[[N]]#0, %[[N]]#1, %[[M]])
// CHECK: tsched.func @[[NORM]]({{.*}} -> (tensor<64x1xf32>, tensor<64x1xf32>, tensor<64x96xf32>)
// CHECK: tsched.func @[[LAST]](
// CHECK-SAME: kind = "rows"
func.func @again(%x: tensor<64x96xf32> {tessera.name = "x"}, %w: tensor<96x96xf32> {tessera.name = "w"}, %v: tensor<96xf32> {tessera.name = "v"})
    -> (tensor<64x96xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %n = tessera.layernorm_safe %x {axes = [1], eps = 1.0e-5} : tensor<64x96xf32>
  %h = tessera.mul %n, %v : (tensor<64x96xf32>, tensor<96xf32>) -> tensor<64x96xf32>
  %m = tessera.matmul %h, %w : (tensor<64x96xf32>, tensor<96x96xf32>) -> tensor<64x96xf32>
  %s = tessera.softmax_safe %m {axis = 1 : i64} : tensor<64x96xf32>
  %y = tessera.mul %s, %n : tensor<64x96xf32>
  return %y : tensor<64x96xf32>
}

// -----

// What is stored in any case, as an argument of a product here, is read where it lies.
// CHECK-LABEL: func.func @stored(
// CHECK: %[[N:.*]] = tsched.call @[[NORM:k[a-z_0-9]*]](%arg0) : (tensor<64x96xf32>) -> tensor<64x96xf32>
// CHECK: %[[M:.*]] = tsched.call @k1_matmul(%[[N]], %arg1)
// CHECK: tsched.call @k2_{{[a-z_0-9]*}}(%[[M]], %[[N]])
func.func @stored(%x: tensor<64x96xf32> {tessera.name = "x"}, %w: tensor<96x96xf32> {tessera.name = "w"})
    -> (tensor<64x96xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %n = tessera.layernorm_safe %x {axes = [1], eps = 1.0e-5} : tensor<64x96xf32>
  %m = tessera.matmul %n, %w : (tensor<64x96xf32>, tensor<96x96xf32>) -> tensor<64x96xf32>
  %s = tessera.softmax_safe %m {axis = 1 : i64} : tensor<64x96xf32>
  %y = tessera.mul %s, %n : tensor<64x96xf32>
  return %y : tensor<64x96xf32>
}

// -----

// So is what is returned.
// CHECK-LABEL: func.func @returned(
// CHECK: %[[N:.*]]:2 = tsched.call @[[NORM:k[a-z_0-9]*]](%arg0, %arg2) : {{.*}} -> (tensor<64x96xf32>, tensor<64x96xf32>)
// CHECK: %[[M:.*]] = tsched.call @k1_matmul(
// CHECK: tsched.call @k2_{{[a-z_0-9]*}}(%[[M]], %[[N]]#0)
func.func @returned(%x: tensor<64x96xf32> {tessera.name = "x"}, %w: tensor<96x96xf32> {tessera.name = "w"}, %v: tensor<96xf32> {tessera.name = "v"})
    -> (tensor<64x96xf32> {tessera.name = "y"}, tensor<64x96xf32> {tessera.name = "n"}) attributes {tessera.entry = "infer"} {
  %n = tessera.layernorm_safe %x {axes = [1], eps = 1.0e-5} : tensor<64x96xf32>
  %h = tessera.mul %n, %v : (tensor<64x96xf32>, tensor<96xf32>) -> tensor<64x96xf32>
  %m = tessera.matmul %h, %w : (tensor<64x96xf32>, tensor<96x96xf32>) -> tensor<64x96xf32>
  %s = tessera.softmax_safe %m {axis = 1 : i64} : tensor<64x96xf32>
  %y = tessera.mul %s, %n : tensor<64x96xf32>
  return %y, %n : tensor<64x96xf32>, tensor<64x96xf32>
}
