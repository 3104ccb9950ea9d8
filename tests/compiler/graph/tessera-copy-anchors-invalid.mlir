// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt -split-input-file -tessera-copy-anchors --no-output %s 2>&1 | FileCheck %s

// CHECK: [[@LINE+1]]:1: error: [TSR-0232] entry '@f': dim 'N' has no size
func.func @f(%x: tensor<?xf32, #tessera.dims<N>> {tessera.name = "x"}) attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
  return
}

// -----

module attributes {tessera.dim_sizes = {N = [1, 2]}} {
  // CHECK: [[@LINE+1]]:3: error: [TSR-0232] entry '@f': its copies have names such as '@f[N=1]'; rename this function
  func.func @f(%x: tensor<?xf32, #tessera.dims<N>> {tessera.name = "x"}) attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
    return
  }
  func.func @"f[N=1]"() attributes {tessera.entry = "infer"} {
    return
  }
}

// -----

module attributes {tessera.dim_sizes = {N = [5, 6]}} {
  // CHECK: [[@LINE+1]]:3: error: [TSR-0232] entry '@f': its copies have names such as '@f[N=4]'; rename this function
  func.func @f(%x: tensor<?xf32, #tessera.dims<N>> {tessera.name = "x"}) attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
    return
  }
  func.func @"f[N=4]"(%x: tensor<4xf32> {tessera.name = "x"}) attributes {tessera.entry = "infer"} {
    return
  }
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0232] dim 'N' has the size 2 twice
module attributes {tessera.dim_sizes = {N = [2, 2]}} {
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0232] dim 'N' has 0 sizes, needs 1 to 64
module attributes {tessera.dim_sizes = {N = []}} {
}

// -----

module attributes {tessera.dim_sizes = {N = [1, 2], S = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], T = [1, 2, 3, 4, 5, 6, 7, 8, 9]}} {
  // CHECK: [[@LINE+1]]:3: error: [TSR-0232] entry '@f': the sizes of 'N' and others have more than 256 combinations
  func.func @f(%x: tensor<?x?x?xf32, #tessera.dims<N, S, T>> {tessera.name = "x"}) attributes {tessera.entry = "infer", tessera.dims = ["N", "S", "T"]} {
    return
  }
}

// -----

module attributes {tessera.dim_sizes = {S = [4, 2]}} {
  func.func @f(%x: tensor<?xf32, #tessera.dims<S>> {tessera.name = "x"}) attributes {tessera.entry = "infer", tessera.dims = ["S"]} {
    // CHECK: [[@LINE+1]]:10: error: [TSR-0232] tessera.iota: 'S - 3' is not a size of a dim where S = 2
    %0 = tessera.iota {axis = 0} : tensor<?xf32, #tessera.dims<"S - 3">>
    return
  }
}

// -----

// The entry @g lists the symbol, and @f does not.
module attributes {tessera.dim_sizes = {N = [1, 2], Q = [1, 2]}} {
  func.func @g(%x: tensor<?xf32, #tessera.dims<Q>> {tessera.name = "x"}) attributes {tessera.entry = "infer", tessera.dims = ["Q"]} {
    return
  }
  func.func @f(%x: tensor<?x8xf32, #tessera.dims<N>> {tessera.name = "x"}) attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
    // CHECK: [[@LINE+1]]:10: error: [TSR-0231] tessera.slice: a dim is Q, but tessera.dims of the entry does not list all of its symbols
    %0 = tessera.slice %x {start = [0, "Q"], size = ["N", 4]} : tensor<?x8xf32, #tessera.dims<N>> -> tensor<?x4xf32, #tessera.dims<N>>
    return
  }
}

// -----

module attributes {tessera.dim_sizes = {Q = [1, 2]}} {
  func.func @f(%x: tensor<2x8xf32> {tessera.name = "x"}) attributes {tessera.entry = "infer"} {
    // CHECK: [[@LINE+1]]:10: error: [TSR-0231] tessera.slice: a dim is Q + 1, but tessera.dims of the entry does not list all of its symbols
    %0 = tessera.slice %x {start = [0, "1 + Q"], size = [2, 4]} : tensor<2x8xf32> -> tensor<2x4xf32>
    return
  }
}
