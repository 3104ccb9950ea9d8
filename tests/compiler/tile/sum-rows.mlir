// SPDX-License-Identifier: Apache-2.0
// On a GPU a sum over rows is a warp's work for each 32 columns, its partial results in registers; other widths, and CPUs, have a local buffer.
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_90a,cpu:x86-64-v3 --ptxas %S/inputs/ptxas-none --dump tile > %t.tile
// RUN: FileCheck %s --input-file=%t.tile
// CHECK: tessera.target = "cuda:sm_90a"
// CHECK: tile.func @k0_sum({{.*}} grid 3
// CHECK-NOT: tile.local
// CHECK: tile.func @k1_sum(
// CHECK: tile.local
// CHECK: tessera.target = "cpu:x86-64-v3"
// CHECK: tile.func @k0_sum(
// CHECK: tile.local
func.func @even(%x: tensor<1000x96xf32> {tessera.name = "x"}) -> (tensor<96xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.sum %x {axes = [0]} : tensor<1000x96xf32> -> tensor<96xf32>
  return %y : tensor<96xf32>
}
func.func @odd(%x: tensor<1000x97xf32> {tessera.name = "x97"}) -> (tensor<97xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.sum %x {axes = [0]} : tensor<1000x97xf32> -> tensor<97xf32>
  return %y : tensor<97xf32>
}
