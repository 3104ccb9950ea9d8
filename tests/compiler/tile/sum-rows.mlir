// SPDX-License-Identifier: Apache-2.0
// On a GPU a sum over rows is a warp's work for each 32 columns, its partial results in registers; other widths, and CPUs, have a local buffer.
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_90a,cpu:x86-64-v3 --ptxas %S/inputs/ptxas-none --dump tile > %t.tile
// RUN: FileCheck %s --input-file=%t.tile
// CHECK: tessera.target = "cuda:sm_90a"
// CHECK: tile.func @k0_sum({{.*}} grid 3
// CHECK-NOT: tile.local
// CHECK: tile.func @k1_sum(
// CHECK: tile.local
// Many rows are two kernels there, the first of which has 64 partial results, 256 columns of each a warp's.
// CHECK: tile.func @k2_sum_parts({{.*}}memref<1x64x512xf32>) grid 128 registers 128
// CHECK: tile.load {{.*}} -> vector<256xf32>
// CHECK: tile.func @k2_sum({{.*}}memref<1x64x512xf32>, {{.*}}) grid 16
// CHECK: tessera.target = "cpu:x86-64-v3"
// CHECK: tile.func @k0_sum(
// CHECK: tile.local
// CHECK-NOT: _parts(
// Many rows of more than 1 MiB are two of a CPU, too; a program has 16 neighbouring partial results, and asks for the same of the next 64 rows.
// CHECK: tile.func @k2_sum_parts({{.*}}memref<1x64x512xf32>) grid 4
// CHECK: tile.prefetch {{.*}} {later}
// CHECK: tile.func @k2_sum({{.*}}memref<1x64x512xf32>, {{.*}}) grid 16
func.func @even(%x: tensor<1000x96xf32> {tessera.name = "x"}) -> (tensor<96xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.sum %x {axes = [0]} : tensor<1000x96xf32> -> tensor<96xf32>
  return %y : tensor<96xf32>
}
func.func @odd(%x: tensor<1000x97xf32> {tessera.name = "x97"}) -> (tensor<97xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.sum %x {axes = [0]} : tensor<1000x97xf32> -> tensor<97xf32>
  return %y : tensor<97xf32>
}
func.func @many(%x: tensor<2000x512xf32> {tessera.name = "x512"}) -> (tensor<512xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.sum %x {axes = [0]} : tensor<2000x512xf32> -> tensor<512xf32>
  return %y : tensor<512xf32>
}
