// SPDX-License-Identifier: Apache-2.0
// Sums by index are several kernels on a GPU: indices are sorted digit by digit; a constant that updates are added to is no tensor. Small ones, and CPUs,
// have one.
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_90a,cpu:x86-64-v3 --ptxas %S/inputs/ptxas-none --dump tile > %t.tile
// RUN: FileCheck %s --input-file=%t.tile
// CHECK: tessera.target = "cuda:sm_90a"
// CHECK-NOT: tessera.constant
// CHECK: tile.func @k0_scatter_add_count0(%{{.*}}: memref<1000xi32>, %{{.*}}: memref<1024xi32>, %{{.*}}: memref<4x32xi32>) grid 4
// CHECK: tile.vote "any"
// CHECK: tile.check_index
// CHECK: tile.scatter
// CHECK: tile.func @k0_scatter_add_move0(
// CHECK: tile.func @k0_scatter_add_count1(
// CHECK-NOT: tile.check_index
// CHECK: tile.func @k0_scatter_add_move1(
// CHECK: tile.func @k0_scatter_add_starts(
// CHECK: tile.func @k0_scatter_add(
// CHECK-NOT: tile.func @k1_scatter_add_count
// CHECK: tile.func @k1_scatter_add(
// CHECK: tessera.target = "cpu:x86-64-v3"
// CHECK-NOT: _count0(
func.func @rows(%i: tensor<1000xi32> {tessera.name = "i"}, %u: tensor<1000x64xf32> {tessera.name = "u"}) -> (tensor<600x64xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %zero = tessera.constant dense<0.0> : tensor<600x64xf32>
  %y = tessera.scatter_add %zero, %i, %u {axis = 0 : i64} : (tensor<600x64xf32>, tensor<1000xi32>, tensor<1000x64xf32>)
  return %y : tensor<600x64xf32>
}
func.func @few(%i: tensor<10xi32> {tessera.name = "i10"}, %u: tensor<10x64xf32> {tessera.name = "u10"}) -> (tensor<6x64xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %zero = tessera.constant dense<0.0> : tensor<6x64xf32>
  %y = tessera.scatter_add %zero, %i, %u {axis = 0 : i64} : (tensor<6x64xf32>, tensor<10xi32>, tensor<10x64xf32>)
  return %y : tensor<6x64xf32>
}
