// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt -split-input-file -tessera-bind-dims -tessera-copy-anchors --no-output %s 2>&1 | FileCheck %s

// CHECK: error: [TSR-0232] dim 'N' has sizes from 0 to 64, needs a size from 1 on and a larger one
module attributes {tessera.dim_sizes = {N = {low = 0, high = 64}}} {
  func.func @f(%x: tensor<?xf32, #tessera.dims<N>> {tessera.name = "x"}) attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
    return
  }
}

// -----
// CHECK: error: [TSR-0232] dim 'N' has sizes from 4 to 4, needs a size from 1 on and a larger one
module attributes {tessera.dim_sizes = {N = {low = 4, high = 4}}} {
  func.func @f(%x: tensor<?xf32, #tessera.dims<N>> {tessera.name = "x"}) attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
    return
  }
}

// -----
module attributes {tessera.dim_sizes = {N = {low = 1, high = 4}}} {
  // CHECK: [[@LINE+1]]:3: error: [TSR-0232] entry '@f': dim 'N' is open; only an infer entry can have an open dim
  func.func @f(%x: tensor<?xf32, #tessera.dims<N>> {tessera.data = "x"}) -> (tensor<?xf32, #tessera.dims<N>> {tessera.name = "y"}) attributes {tessera.entry = "eval", tessera.dims = ["N"]} {
    return %x : tensor<?xf32, #tessera.dims<N>>
  }
}

// -----
module attributes {tessera.dim_sizes = {N = {low = 1, high = 4}, S = {low = 2, high = 3}}} {
  // CHECK: [[@LINE+1]]:3: error: [TSR-0232] entry '@f': dims 'N' and 'S' are open, and only one dim can be; give the others sizes, as in --dim S=8,64
  func.func @f(%x: tensor<?x?xf32, #tessera.dims<N, S>> {tessera.name = "x"}) attributes {tessera.entry = "infer", tessera.dims = ["N", "S"]} {
    return
  }
}

// -----
module attributes {tessera.dim_sizes = {N = {low = 2, high = 4}}} {
  // CHECK: [[@LINE+1]]:3: error: [TSR-0232] entry '@f': dim 'N' begins at 2; an entry that is tessera.rows_independent takes any number of rows, so begin at 1
  func.func @f(%x: tensor<?xf32, #tessera.dims<N>> {tessera.name = "x"}) -> (tensor<?xf32, #tessera.dims<N>> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.dims = ["N"], tessera.rows_independent} {
    return %x : tensor<?xf32, #tessera.dims<N>>
  }
}

// -----
module attributes {tessera.dim_sizes = {N = {low = 1, high = 4}}} {
  func.func @f(%x: tensor<?x3xf32, #tessera.dims<N>> {tessera.name = "x"}) -> (tensor<?x3xf32, #tessera.dims<"N + 1">> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
    // CHECK: [[@LINE+1]]:10: error: [TSR-0233] tessera.pad: a value is (N + 1)x3xf32, where only the first dim may be N or a multiple, so dim 'N' cannot stay open; build for its sizes: --dim N=1,8,64
    %0 = tessera.pad %x {low = [0, 0], high = [1, 0], interior = [0, 0]} : tensor<?x3xf32, #tessera.dims<N>> -> tensor<?x3xf32, #tessera.dims<"N + 1">>
    return %0 : tensor<?x3xf32, #tessera.dims<"N + 1">>
  }
}

// -----
module attributes {tessera.dim_sizes = {N = {low = 1, high = 4}}} {
  func.func @f(%x: tensor<?x3xf32, #tessera.dims<N>> {tessera.name = "x"}) -> (tensor<1xi64> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
    // CHECK: [[@LINE+1]]:10: error: [TSR-0233] tessera.sizes: the program computes with the size of the dim, so dim 'N' cannot stay open
    %0 = tessera.sizes {values = ["2*N"]} : tensor<1xi64>
    return %0 : tensor<1xi64>
  }
}

// -----
module attributes {tessera.dim_sizes = {N = {low = 1, high = 4}}} {
  func.func @f(%x: tensor<?x3xf32, #tessera.dims<N>> {tessera.name = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
    // CHECK: [[@LINE+1]]:10: error: [TSR-0233] tessera.iota: its result has the dim and depends on no input that has it, so dim 'N' cannot stay open
    %0 = tessera.iota {axis = 0} : tensor<?xf32, #tessera.dims<N>>
    %1 = tessera.sum %0 {axes = [0]} : tensor<?xf32, #tessera.dims<N>> -> tensor<f32>
    return %1 : tensor<f32>
  }
}
