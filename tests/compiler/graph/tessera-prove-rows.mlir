// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt -tessera-name-calls -inline -tessera-drop-other-functions -tessera-prove-rows --no-output -split-input-file %s 2>&1 | FileCheck %s
// What each op does with rows is in rows.py. Here: what is said, with the path, and which entries are scanned.

// The way from the argument, the op, the way to the result; ops of a function with the place of its call.
// CHECK: [[@LINE+7]]:8: error: [TSR-0229] tessera.mean: reduces dim 0 of operand 0, which holds the rows; entry '@f' has tessera.rows_independent, so a row of a result may only depend on the same row of the arguments
// CHECK: note: called from here
// CHECK: [[@LINE+9]]:14: note: the rows come from argument 'x' of entry '@f'
// CHECK: [[@LINE+9]]:8: note: tessera.reshape passes them on
// CHECK: [[@LINE+4]]:8: note: tessera.sub depends on it
// CHECK: [[@LINE+9]]:3: note: result 'y' depends on it
func.func @center(%a: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %m = tessera.mean %a {axes = [0]} : tensor<4x6xf32> -> tensor<6xf32>
  %0 = tessera.sub %a, %m : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
func.func @f(%x: tensor<4x2x3xf32> {tessera.name = "x"}) -> (tensor<4x6xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.rows_independent} {
  %1 = tessera.reshape %x : tensor<4x2x3xf32> -> tensor<4x6xf32>
  %2 = func.call @center(%1) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// -----

// Rows and what differs from row to row by itself.
// CHECK: [[@LINE+6]]:8: error: [TSR-0229] tessera.add: combines the rows with a value that differs from row to row by itself, so that results depend on the position of a row in its batch; entry '@f' has
// CHECK: [[@LINE+4]]:8: note: this value differs from row to row by itself
// CHECK: [[@LINE+2]]:14: note: the rows come from argument 'x' of entry '@f'
// CHECK: note: result 'y' depends on it
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.rows_independent} {
  %0 = tessera.iota {axis = 0} : tensor<4xf32>
  %1 = tessera.add %x, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// An eval entry is refused without the attribute, too; data have rows, and an argument of as many.
// CHECK: [[@LINE+2]]:8: error: [TSR-0229] tessera.softmax_safe: combines elements along dim 0 of operand 0, which holds the rows; entry '@f' is "eval", for which it must be tessera.rows_independent, so
func.func @f(%x: tensor<4xf32> {tessera.data = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "eval"} {
  %0 = tessera.softmax_safe %x {axis = 0} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// One that is independent gets a remark, unless an argument has no rows.
// CHECK: [[@LINE+2]]:1: remark: [TSR-0230] entry '@f': its rows do not depend on each other; with tessera.rows_independent it can be evaluated over a data set, and takes any number of rows
// CHECK-NOT: TSR
func.func @f(%x: tensor<4xf32> {tessera.data = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "eval"} {
  %0 = tessera.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @g(%x: tensor<4xf32> {tessera.data = "x"}, %s: tensor<f32> {tessera.name = "s"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "eval"} {
  %0 = tessera.mul %x, %s : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// An infer entry that mixes rows is called with whole batches, a train entry sees whole batches, one row mixes with none.
// CHECK-NOT: TSR
func.func @infer(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.cumsum %x {axis = 0} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @train(%x: tensor<4xf32> {tessera.data = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  %0 = tessera.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @one(%x: tensor<1x4xf32> {tessera.name = "x"}) -> (tensor<1x4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.rows_independent} {
  %0 = tessera.cumsum %x {axis = 0} : tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}

// -----

// Long ways: the last ops before it and the first ones behind it are named.
// CHECK: error: [TSR-0229] tessera.cumsum
// CHECK: note: tessera.tanh passes them on, after 2 other ops
// CHECK-NEXT: %3 = tessera.tanh
// CHECK: note: tessera.neg depends on it, and 1 ops on that
// CHECK: note: result 'y' depends on it
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.rows_independent} {
  %1 = tessera.exp %x : tensor<4xf32>
  %2 = tessera.log %1 : tensor<4xf32>
  %3 = tessera.tanh %2 : tensor<4xf32>
  %4 = tessera.exp %3 : tensor<4xf32>
  %5 = tessera.abs %4 : tensor<4xf32>
  %6 = tessera.cumsum %5 {axis = 0} : tensor<4xf32>
  %7 = tessera.exp %6 : tensor<4xf32>
  %8 = tessera.log %7 : tensor<4xf32>
  %9 = tessera.neg %8 : tensor<4xf32>
  %10 = tessera.exp %9 : tensor<4xf32>
  return %10 : tensor<4xf32>
}
