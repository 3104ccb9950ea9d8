// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -split-input-file -tessera-bind-dims -tessera-copy-anchors %s | FileCheck %s
// RUN: tessera-opt -split-input-file -tessera-bind-dims %s | FileCheck %s --check-prefix=BOUND
// A dim with a range of sizes stays open at run time: the types get its largest size, and the entry says which ports have the dim.

// BOUND: module attributes {tessera.dim_sizes = {N = {high = 64 : i64, low = 2 : i64}, S = 3 : i64}}
// BOUND: func.func @f(%{{.*}}: tensor<?x3xf32, #tessera.dims<N>>
module attributes {tessera.dim_sizes = {N = {low = 2, high = 64}, S = 3}} {
// CHECK: func.func @f(%{{.*}}: tensor<64x3xf32> {tessera.name = "x"}, %{{.*}}: tensor<3xf32> {tessera.name = "b"}, %{{.*}}: tensor<320xf32> {tessera.name = "c"})
// CHECK-SAME: -> (tensor<192xf32> {tessera.name = "y"}, tensor<3xf32> {tessera.name = "d"})
// CHECK-SAME: attributes {tessera.entry = "infer", tessera.open_dim = "N", tessera.open_inputs = [1, 0, 5], tessera.open_outputs = [3, 0], tessera.open_range = [2, 64]}
func.func @f(%x: tensor<?x?xf32, #tessera.dims<N, S>> {tessera.name = "x"}, %b: tensor<?xf32, #tessera.dims<S>> {tessera.name = "b"}, %c: tensor<?xf32, #tessera.dims<"5*N">> {tessera.name = "c"})
    -> (tensor<?xf32, #tessera.dims<"N*S">> {tessera.name = "y"}, tensor<?xf32, #tessera.dims<S>> {tessera.name = "d"})
    attributes {tessera.entry = "infer", tessera.dims = ["N", "S"]} {
  // A constant of N rows, with rows of an input.
  // CHECK: tessera.broadcast {{.*}} : tensor<3xf32> -> tensor<64x3xf32>
  %0 = tessera.broadcast %b : tensor<?xf32, #tessera.dims<S>> -> tensor<?x?xf32, #tessera.dims<N, S>>
  %1 = tessera.add %x, %0 : tensor<?x?xf32, #tessera.dims<N, S>>
  %2 = tessera.reshape %1 : tensor<?x?xf32, #tessera.dims<N, S>> -> tensor<?xf32, #tessera.dims<"N*S">>
  return %2, %b : tensor<?xf32, #tessera.dims<"N*S">>, tensor<?xf32, #tessera.dims<S>>
}
}

// -----

// With several sizes of another dim, each copy has the open dim.
// CHECK: func.func @"g[S=3]"(%{{.*}}: tensor<8x3xf32> {tessera.name = "x"}) -> (tensor<24xf32> {tessera.name = "y"})
// CHECK-SAME: attributes {tessera.entry = "infer", tessera.open_dim = "N", tessera.open_inputs = [1], tessera.open_outputs = [3], tessera.open_range = [1, 8]}
// CHECK: func.func @"g[S=5]"(%{{.*}}: tensor<8x5xf32> {tessera.name = "x"}) -> (tensor<40xf32> {tessera.name = "y"})
// CHECK-SAME: tessera.open_outputs = [5]
// CHECK-NOT: func.func @g(
module attributes {tessera.dim_sizes = {N = {low = 1, high = 8}, S = [3, 5]}} {
func.func @g(%x: tensor<?x?xf32, #tessera.dims<N, S>> {tessera.name = "x"}) -> (tensor<?xf32, #tessera.dims<"N*S">> {tessera.name = "y"})
    attributes {tessera.entry = "infer", tessera.dims = ["N", "S"]} {
  %0 = tessera.reshape %x : tensor<?x?xf32, #tessera.dims<N, S>> -> tensor<?xf32, #tessera.dims<"N*S">>
  return %0 : tensor<?xf32, #tessera.dims<"N*S">>
}
}
