// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-bind-dims -tessera-copy-anchors %s | FileCheck %s
// RUN: tessera-opt -tessera-bind-dims %s | FileCheck %s --check-prefix=BOUND

// The copies have known dims; the last symbol changes first.
// CHECK: module {
// CHECK: func.func @"f[N=2,S=3]"(%{{.*}}: tensor<2x3x8xf32> {tessera.name = "x"}) -> (tensor<?x8xf32>
// CHECK-SAME: attributes {tessera.entry = "infer"}
// CHECK: tessera.slice {{.*}} {size = [1, 3, 8], start = [1, 0, 0]}
// CHECK: func.func @"f[N=2,S=4]"(%{{.*}}: tensor<2x4x8xf32>
// CHECK: tessera.slice {{.*}} {size = [1, 4, 8], start = [1, 0, 0]}
// CHECK: func.func @"f[N=16,S=3]"(%{{.*}}: tensor<16x3x8xf32>
// CHECK: tessera.slice {{.*}} {size = [1, 3, 8], start = [15, 0, 0]}
// CHECK: func.func @"f[N=16,S=4]"(%{{.*}}: tensor<16x4x8xf32>
// CHECK-NOT: func.func @f(

// Dims whose symbols have one size are bound first.
// BOUND: module attributes {tessera.dim_sizes = {D = 8 : i64, N = [2, 16], S = [3, 4]}}
// BOUND: func.func @f(%{{.*}}: tensor<?x?x8xf32, #tessera.dims<N, S>> {tessera.name = "x"})
// BOUND-SAME: attributes {tessera.dims = ["N", "S"], tessera.entry = "infer"}
// BOUND: tessera.iota {axis = 0 : i64} : tensor<?xf32, #tessera.dims<"8*N">>
module attributes {tessera.dim_sizes = {D = 8, N = [2, 16], S = [3, 4]}} {
func.func @f(%x: tensor<?x?x?xf32, #tessera.dims<N, S, D>> {tessera.name = "x"}) -> (tensor<?x?xf32, #tessera.dims<"?", D>> {tessera.name = "y"})
    attributes {tessera.entry = "infer", tessera.dims = ["N", "S", "D"]} {
  // CHECK-NOT: #tessera.dims
  %0 = tessera.iota {axis = 0} : tensor<?xf32, #tessera.dims<"N*D">>
  %1 = tessera.slice %x {start = ["N - 1", 0, 0], size = [1, "S", "D"]} : tensor<?x?x?xf32, #tessera.dims<N, S, D>> -> tensor<1x?x?xf32>
  %2 = tessera.reshape %1 : tensor<1x?x?xf32> -> tensor<?x?xf32, #tessera.dims<"?", D>>
  return %2 : tensor<?x?xf32, #tessera.dims<"?", D>>
}

// CHECK: func.func @g(%{{.*}}: tensor<8xf32>
func.func @g(%x: tensor<?xf32, #tessera.dims<D>> {tessera.name = "x"}) attributes {tessera.entry = "infer", tessera.dims = ["D"]} {
  return
}
}
