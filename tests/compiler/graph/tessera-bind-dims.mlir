// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-bind-dims %s | FileCheck %s
// RUN: tessera-opt %s | tessera-opt | FileCheck %s --check-prefix=TEXT
// RUN: tessera-opt --mlir-print-op-generic %s | tessera-opt | FileCheck %s --check-prefix=TEXT
// RUN: tessera-opt -tessera-verify -tessera-infer-shapes %s | FileCheck %s --check-prefix=INFER
// RUN: tessera-opt -tessera-verify -cse %s | FileCheck %s --check-prefix=CSE

// The attribute of the sizes, and those of the symbols, are used up.
// CHECK: module {

// CHECK-NOT: #tessera.dims
module attributes {tessera.dim_sizes = {N = 17 : i64, S = 5 : i64}} {

// Types of functions, arguments, results and regions; through calls.
// CHECK: func.func private @double(%{{.*}}: tensor<17x4xf32>) -> tensor<?x4xf32>
// INFER: func.func private @double(%{{.*}}) -> tensor<?x4xf32, #tessera.dims<N>>
func.func private @double(%x: tensor<?x4xf32, #tessera.dims<N>>) -> tensor<?x4xf32> {
  %0 = tessera.add %x, %x : tensor<?x4xf32, #tessera.dims<N>> -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// TEXT: func.func @f(%{{.*}}: tensor<?x4xf32, #tessera.dims<N>> {tessera.name = "x"}, %{{.*}}: tensor<?x3x?xf32, #tessera.dims<S, "N*S + 1">>
// TEXT-SAME: attributes {tessera.dims = ["N", "S"], tessera.entry = "infer"}
// CHECK: func.func @f(%[[X:.*]]: tensor<17x4xf32> {tessera.name = "x"}, %[[Y:.*]]: tensor<5x3x86xf32> {tessera.name = "y"})
// CHECK-SAME: attributes {tessera.entry = "infer"}
func.func @f(%x: tensor<?x4xf32, #tessera.dims<N>> {tessera.name = "x"}, %y: tensor<?x3x?xf32, #tessera.dims<S, "1 + S * N">> {tessera.name = "y"})
    -> (tensor<?xf32> {tessera.name = "r"}) attributes {tessera.entry = "infer", tessera.dims = ["N", "S"]} {
  // INFER: call @double(%{{.*}}) : (tensor<?x4xf32, #tessera.dims<N>>) -> tensor<?x4xf32, #tessera.dims<N>>
  %0 = call @double(%x) : (tensor<?x4xf32, #tessera.dims<N>>) -> tensor<?x4xf32>

  // Unrelated dims: these differ, and the last two are equal.
  // CSE: tessera.iota {{.*}} : tensor<?xi64, #tessera.dims<N>>
  // CSE-NEXT: tessera.iota {{.*}} : tensor<?xi64, #tessera.dims<S>>
  // CSE-NOT: tessera.iota
  // CHECK: tessera.iota {axis = 0 : i64} : tensor<17xi64>
  // CHECK-NEXT: tessera.iota {axis = 0 : i64} : tensor<5xi64>
  %1 = tessera.iota {axis = 0} : tensor<?xi64, #tessera.dims<N>>
  %2 = tessera.iota {axis = 0} : tensor<?xi64, #tessera.dims<S>>
  %3 = tessera.iota {axis = 0} : tensor<?xi64, #tessera.dims<S>>

  // Sums, products, quotients and differences.
  // INFER: tessera.concat {{.*}} -> tensor<?xi64, #tessera.dims<"N + 2*S">>
  %4 = tessera.concat %1, %2, %3 {axis = 0} : (tensor<?xi64, #tessera.dims<N>>, tensor<?xi64, #tessera.dims<S>>, tensor<?xi64, #tessera.dims<S>>) -> tensor<?xi64>
  // INFER: tessera.reshape {{.*}} -> tensor<?x3xf32, #tessera.dims<"N*S*S + S">>
  // CHECK: tessera.reshape %[[Y]] : tensor<5x3x86xf32> -> tensor<?x3xf32>
  %5 = tessera.reshape %y : tensor<?x3x?xf32, #tessera.dims<S, "N*S + 1">> -> tensor<?x3xf32>
  // INFER: tessera.reshape {{.*}} -> tensor<3x?x?xf32, #tessera.dims<S, "N*S + 1">>
  %6 = tessera.reshape %5 : tensor<?x3xf32> -> tensor<3x?x?xf32, #tessera.dims<S, "?">>
  // INFER: tessera.pad {{.*}} -> tensor<?x6xf32, #tessera.dims<"2*N + 2">>
  %7 = tessera.pad %x {low = [1, 1], high = [2, 1], interior = [1, 0]} : tensor<?x4xf32, #tessera.dims<N>> -> tensor<?x6xf32>
  // INFER: tessera.slice {{.*}} -> tensor<?x4xf32, #tessera.dims<"N - 1">>
  // CHECK: tessera.slice %[[X]] {size = [16, 4], start = [1, 0]}
  // TEXT: tessera.slice {{.*}} {size = ["N - 1", 4], start = [1, 0]}
  %8 = tessera.slice %x {start = [1, 0], size = ["N - 1", 4]} : tensor<?x4xf32, #tessera.dims<N>> -> tensor<?x4xf32>
  // The last row.
  // CHECK: tessera.slice %[[X]] {size = [1, 4], start = [16, 0]}
  %9 = tessera.slice %x {start = ["N - 1", 0], size = [1, 4]} : tensor<?x4xf32, #tessera.dims<N>> -> tensor<1x4xf32>
  // INFER: tessera.matmul {{.*}} -> tensor<?x?xf32, #tessera.dims<N, N>>
  %10 = tessera.matmul %x, %x {transpose_b = true} : tensor<?x4xf32, #tessera.dims<N>> -> tensor<?x?xf32>
  // INFER: tessera.mean {{.*}} -> tensor<?xf32, #tessera.dims<N>>
  %11 = tessera.mean %10 {axes = [1]} : tensor<?x?xf32> -> tensor<?xf32>
  // Sizes as values.
  // TEXT: tessera.sizes {values = ["N", -1, "1 + N * S", "S - N"]} : tensor<4xi64>
  // CHECK: tessera.sizes {values = [17, -1, 86, -12]} : tensor<4xi64>
  %12 = tessera.sizes {values = ["N", -1, "1 + N * S", "S - N"]} : tensor<4xi64>
  return %11 : tensor<?xf32>
}

// Windows along open dims.
// CHECK: func.func @conv(%{{.*}}: tensor<17x5x10x3xf32>
// INFER: tessera.conv2d {{.*}} -> tensor<?x?x?x4xf32, #tessera.dims<N, "floor((S + 1)/2)", "2*S">>
func.func @conv(%x: tensor<?x?x?x3xf32, #tessera.dims<N, S, "2*S">>, %f: tensor<3x3x3x4xf32>) {
  %0 = tessera.conv2d %x, %f {dilation = [1, 1], padding = [1, 1, 1, 1], strides = [2, 1]} : (tensor<?x?x?x3xf32, #tessera.dims<N, S, "2*S">>, tensor<3x3x3x4xf32>) -> tensor<?x?x?x4xf32>
  return
}

// Regions.
// CHECK: func.func @sum(%{{.*}}: tensor<5x17xf32>
// CHECK: ^bb0(%{{.*}}: tensor<17xf32>, %{{.*}}: tensor<17xf32>):
func.func @sum(%x: tensor<?x?xf32, #tessera.dims<S, N>>, %s: tensor<?xf32, #tessera.dims<N>>) {
  %0:2 = "tessera.scan"(%s, %x) ({
  ^bb0(%a: tensor<?xf32, #tessera.dims<N>>, %b: tensor<?xf32, #tessera.dims<N>>):
    %c = tessera.add %a, %b : tensor<?xf32, #tessera.dims<N>>
    tessera.yield %c, %c : tensor<?xf32, #tessera.dims<N>>, tensor<?xf32, #tessera.dims<N>>
  }) {carried = 1 : i64} : (tensor<?xf32, #tessera.dims<N>>, tensor<?x?xf32, #tessera.dims<S, N>>) -> (tensor<?xf32, #tessera.dims<N>>, tensor<?x?xf32, #tessera.dims<S, N>>)
  return
}
}
