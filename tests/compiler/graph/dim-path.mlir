// SPDX-License-Identifier: Apache-2.0
// An error about dims says what gave each its size, and through which ops it came.
// RUN: not tessera-opt -split-input-file %s 2>&1 | FileCheck %s

func.func @train(%x: tensor<8x6xf32> {tessera.data = "x"}) -> (tensor<8x4xf32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<4x7xf32>
  %t = tessera.transpose %w {permutation = [1, 0]} : tensor<4x7xf32> -> tensor<7x4xf32>
  %r = tessera.relu %t : tensor<7x4xf32>
  // CHECK: [[@LINE+5]]:8: error: [TSR-0102] tessera.matmul: contracted dimensions differ: lhs dim 1 is 6, rhs dim 0 is 7; they must be equal
  // CHECK: [[@LINE-5]]:18: note: lhs dim 1 is dim 1 of argument 'x' of @train
  // CHECK-NEXT: func.func @train
  // CHECK: [[@LINE-6]]:8: note: rhs dim 0 is dim 1 of parameter 'w', by tessera.relu, tessera.transpose
  // CHECK-NEXT: tessera.param
  %0 = tessera.matmul %x, %r : (tensor<8x6xf32>, tensor<7x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

// Rows and columns of a product, an open reshape, what a broadcast stretches, a reduction; a long way is cut short.
func.func @f(%a: tensor<2x3xf32>, %b: tensor<5x3xf32>, %c: tensor<2x4xf32>) {
  %0 = tessera.matmul %a, %b {transpose_b = true} : (tensor<2x3xf32>, tensor<5x3xf32>) -> tensor<2x5xf32>
  %1 = tessera.reshape %0 : tensor<2x5xf32> -> tensor<1x2x5xf32>
  %2 = tessera.broadcast %1 : tensor<1x2x5xf32> -> tensor<7x2x5xf32>
  %3 = tessera.sum %2 {axes = [0]} : tensor<7x2x5xf32> -> tensor<2x5xf32>
  %4 = tessera.exp %3 : tensor<2x5xf32>
  %5 = tessera.softmax_safe %4 {axis = 1 : i64} : tensor<2x5xf32>
  // CHECK: error: [TSR-0103] tessera.add: shapes do not broadcast: lhs dim 1 is 5 (2x5xf32), rhs dim 1 is 4 (2x4xf32)
  // CHECK: note: lhs dim 1 is dim 0 of argument 1 of @f, by tessera.softmax_safe, tessera.exp, tessera.sum, tessera.broadcast and 2 more
  // CHECK: note: rhs dim 1 is dim 1 of argument 2 of @f
  %6 = tessera.add %5, %c : (tensor<2x5xf32>, tensor<2x4xf32>) -> tensor<2x5xf32>
  return
}

// -----

// A path ends at the op that gives the size.
func.func @f(%a: tensor<2x3xf32>, %i: tensor<6xi64>) {
  %0 = tessera.gather %a, %i {axis = 1 : i64} : (tensor<2x3xf32>, tensor<6xi64>) -> tensor<2x6xf32>
  %1 = tessera.concat %a, %0 {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x6xf32>) -> tensor<2x9xf32>
  %2 = tessera.slice %1 {start = [0, 1], size = [2, 4]} : tensor<2x9xf32> -> tensor<2x4xf32>
  // CHECK: error: [TSR-0126] tessera.concat: operand 1 is 2x4xf32, operand 0 is 2x6xf32; only dim 0 may differ
  // CHECK: note: operand 1 dim 1 is dim 1 of the result of tessera.slice
  // CHECK: note: operand 0 dim 1 is dim 1 of the result of tessera.gather
  %3 = tessera.concat %0, %2 {axis = 0 : i64} : (tensor<2x6xf32>, tensor<2x4xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8x8x3xf32>, %f: tensor<3x3x4x5xf32>, %s: tensor<4x3xf32>) {
  // CHECK: error: [TSR-0140] tessera.conv2d: {{.*}}: 3 and 4; they must be equal
  // CHECK: note: image dim 3 is dim 3 of argument 0 of @f
  // CHECK: note: filter dim 2 is dim 2 of argument 1 of @f
  %0 = tessera.conv2d %a, %f {strides = [1, 1], padding = [1, 1, 1, 1], dilation = [1, 1]} : (tensor<4x8x8x3xf32>, tensor<3x3x4x5xf32>) -> tensor<4x8x8x5xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xf32>, %s: tensor<7xf32>) {
  // CHECK: error: [TSR-0137] tessera.rmsnorm_safe: scale (7xf32) does not broadcast to 4x8xf32
  // CHECK: note: scale dim 0 is dim 0 of argument 1 of @f
  // CHECK: note: the operand's dim 1 is dim 1 of argument 0 of @f
  %0 = tessera.rmsnorm_safe %a, %s {axes = [1], eps = 1.0e-5} : (tensor<4x8xf32>, tensor<7xf32>) -> tensor<4x8xf32>
  return
}

// -----

// What is written for a result, and what should be: the last type of the line.
func.func @f(%a: tensor<4x8xf32>) {
  // CHECK: error: [TSR-0105] tessera.add: result dim 1 is 9 in 'tensor<4x9xf32>', must be 8; did you mean 'tensor<4x8xf32>'?
  // CHECK-NEXT: %0 = tessera.add
  // CHECK-NEXT: {{^ +\^$}}
  // CHECK-NEXT: {{^ +}}tensor<4x8xf32>{{$}}
  %0 = tessera.add %a, %a : tensor<4x8xf32> -> tensor<4x9xf32>
  return
}
