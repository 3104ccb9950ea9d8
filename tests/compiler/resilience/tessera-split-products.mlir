// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-split-products -split-input-file %s | FileCheck %s

// Three products of one matrix, with the bias of each.
// CHECK-LABEL: func.func @fused
// CHECK-NOT: tessera.split
// CHECK: %[[W:.*]] = tessera.slice %{{.*}} {size = [4, 2], start = [0, 0]} : tensor<4x6xf32> -> tensor<4x2xf32>
// CHECK: tessera.matmul %arg0, %[[W]] : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
// CHECK: tessera.slice %{{.*}} {size = [2], start = [0]} : tensor<6xf32> -> tensor<2xf32>
// CHECK: tessera.slice %{{.*}} {size = [4, 2], start = [0, 2]}
// CHECK: tessera.slice %{{.*}} {size = [4, 2], start = [0, 4]}
// CHECK: return
func.func @fused(%x: tensor<8x4xf32> {tessera.data = "x"}) -> (tensor<8x2xf32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" {tessera.layout_axis = "model", tessera.layout_dim = 1 : i64} init = #tessera.constant<1.0> : tensor<4x6xf32>
  %b = tessera.param "b" init = #tessera.constant<0.0> : tensor<6xf32>
  %m = tessera.matmul %x, %w : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %a = tessera.add %m, %b : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
  %p:3 = tessera.split %a {axis = 1 : i64} : tensor<8x6xf32> -> tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x2xf32>
  %s = tessera.add %p#0, %p#1 : tensor<8x2xf32>
  %t = tessera.add %s, %p#2 : tensor<8x2xf32>
  return %t : tensor<8x2xf32>
}

// -----
// Rows of the product, a matrix that is split along its rows, and one that is not split: nothing changes.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-3: tessera.slice
// CHECK-NOT: tessera.slice
// CHECK: return
func.func @others(%x: tensor<8x4xf32> {tessera.data = "x"}) -> (tensor<8x2xf32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" {tessera.layout_axis = "model", tessera.layout_dim = 1 : i64} init = #tessera.constant<1.0> : tensor<4x4xf32>
  %u = tessera.param "u" {tessera.layout_axis = "model"} init = #tessera.constant<1.0> : tensor<4x4xf32>
  %v = tessera.param "v" init = #tessera.constant<1.0> : tensor<4x4xf32>
  %m = tessera.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %rows = tessera.slice %m {start = [4, 0], size = [4, 4]} : tensor<8x4xf32> -> tensor<4x4xf32>
  %n = tessera.matmul %rows, %u : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %some = tessera.slice %n {start = [0, 1], size = [4, 2]} : tensor<4x4xf32> -> tensor<4x2xf32>
  %o = tessera.matmul %x, %v : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %last = tessera.slice %o {start = [0, 2], size = [8, 2]} : tensor<8x4xf32> -> tensor<8x2xf32>
  %sum = tessera.sum %some {axes = [0]} : tensor<4x2xf32> -> tensor<2xf32>
  %y = tessera.add %last, %sum : (tensor<8x2xf32>, tensor<2xf32>) -> tensor<8x2xf32>
  return %y : tensor<8x2xf32>
}

// -----
// A value that is read twice is computed once for each slice.
// CHECK-LABEL: func.func @shared
// CHECK-COUNT-3: tessera.mul
// CHECK: tessera.slice
// CHECK-COUNT-3: tessera.mul
// CHECK: tessera.slice
// CHECK-COUNT-3: tessera.mul
// CHECK-NOT: tessera.mul
// CHECK: return
func.func @shared(%x: tensor<8x4xf32> {tessera.data = "x"}) -> (tensor<8x2xf32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" {tessera.layout_axis = "model", tessera.layout_dim = 1 : i64} init = #tessera.constant<1.0> : tensor<4x4xf32>
  %m = tessera.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %a = tessera.mul %m, %m : tensor<8x4xf32>
  %b = tessera.mul %a, %a : tensor<8x4xf32>
  %c = tessera.mul %b, %b : tensor<8x4xf32>
  %p:2 = tessera.split %c {axis = 1 : i64} : tensor<8x4xf32> -> tensor<8x2xf32>, tensor<8x2xf32>
  %s = tessera.add %p#0, %p#1 : tensor<8x2xf32>
  return %s : tensor<8x2xf32>
}
