// SPDX-License-Identifier: Apache-2.0
// What ops refuse of open dims: op, dim and both sizes.
// RUN: not tessera-opt -split-input-file --no-output %s 2>&1 | FileCheck %s

// N and a number are different dims.
func.func @f(%a: tensor<?x4xf32, #tessera.dims<N>>, %b: tensor<17x4xf32>) {
  // CHECK: [TSR-0103] tessera.add: shapes do not broadcast: lhs dim 0 is N (Nx4xf32), rhs dim 0 is 17 (17x4xf32); they must be equal, or one of them 1
  %0 = tessera.add %a, %b : (tensor<?x4xf32, #tessera.dims<N>>, tensor<17x4xf32>) -> tensor<?x4xf32, #tessera.dims<N>>
  return
}

// -----

// Different symbols.
func.func @f(%a: tensor<3x?xf32, #tessera.dims<N>>, %b: tensor<?x4xf32, #tessera.dims<"1 + S">>) {
  // CHECK: [TSR-0102] tessera.matmul: contracted dimensions differ: lhs dim 1 is N, rhs dim 0 is S + 1; they must be equal
  %0 = tessera.matmul %a, %b : (tensor<3x?xf32, #tessera.dims<N>>, tensor<?x4xf32, #tessera.dims<"1 + S">>) -> tensor<3x4xf32>
  return
}

// -----

// The result that follows.
func.func @f(%a: tensor<?xf32, #tessera.dims<N>>) {
  // CHECK: [TSR-0105] tessera.concat: result dim 0 is N in 'tensor<?xf32, #tessera.dims<N>>', must be 2*N; did you mean 'tensor<?xf32, #tessera.dims<"2*N">>'?
  %0 = tessera.concat %a, %a {axis = 0} : tensor<?xf32, #tessera.dims<N>> -> tensor<?xf32, #tessera.dims<N>>
  return
}

// -----

// Not for every N.
func.func @f(%a: tensor<?x6xf32, #tessera.dims<N>>) {
  // CHECK: [TSR-0107] tessera.reshape: the elements of the operand (Nx6xf32) are not known to fill 4x?xf32
  %0 = tessera.reshape %a : tensor<?x6xf32, #tessera.dims<N>> -> tensor<4x?xf32>
  return
}

// -----

// Outside for every N.
func.func @f(%a: tensor<?xf32, #tessera.dims<N>>) {
  // CHECK: [TSR-0125] tessera.slice: N elements from 1 by 1 do not fit into dim 0 of N
  %0 = tessera.slice %a {start = [1], size = ["N"]} : tensor<?xf32, #tessera.dims<N>> -> tensor<?xf32, #tessera.dims<N>>
  return
}

// -----

// No expression.
func.func @f(%a: tensor<?xf32, #tessera.dims<N>>) {
  // CHECK: [TSR-0156] tessera.slice: size entry 0 is 'N/2', which is not an expression
  %0 = tessera.slice %a {start = [0], size = ["N/2"]} : tensor<?xf32, #tessera.dims<N>> -> tensor<?xf32>
  return
}

// -----

// Parts of an open dim.
func.func @f(%a: tensor<?xf32, #tessera.dims<N>>) {
  // CHECK: [TSR-0127] tessera.split: the parts have N + 3 elements along axis 0, the operand is Nxf32
  %0:2 = tessera.split %a {axis = 0} : tensor<?xf32, #tessera.dims<N>> -> (tensor<3xf32>, tensor<?xf32, #tessera.dims<N>>)
  return
}

// -----

// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0156] '4' is not a dim: the expression is a number; a dim of known size is part of the shape
func.func @f(%a: tensor<?xf32, #tessera.dims<"4">>) {
  return
}

// -----

// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0156] 'N +' is not a dim: expected a symbol or an integer
func.func @f(%a: tensor<?xf32, #tessera.dims<"N +">>) {
  return
}

// -----

// CHECK: [TSR-0156] the shape has 1 dims '?', #tessera.dims has 2
func.func @f(%a: tensor<?x3xf32, #tessera.dims<N, S>>) {
  return
}

// -----

// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0156] '-N' is not a dim: the expression is negative for all sizes of its symbols
func.func @f(%a: tensor<?xf32, #tessera.dims<"-N">>) {
  return
}

// -----

// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0156] 'min(N, 3) - 4' is not a dim: the expression is negative for all sizes of its symbols
func.func @f(%a: tensor<?xf32, #tessera.dims<"min(N, 3) - 4">>) {
  return
}

// -----

func.func @f(%a: tensor<?x4xf32, #tessera.dims<N>>) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0156] tessera.slice: size entry 0 is '-N', which is not an expression, or below 0 for all sizes
  %0 = tessera.slice %a {start = [0, 0], size = ["-N", 4]} : tensor<?x4xf32, #tessera.dims<N>> -> tensor<?x4xf32>
  return
}
