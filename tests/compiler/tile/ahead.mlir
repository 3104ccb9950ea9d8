// SPDX-License-Identifier: Apache-2.0
// Where no cache holds the logits, the walk that takes a row's exponentials finds the next row's largest; lines of it are asked for, to the second level.
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v3 --dump tile | FileCheck %s
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v4 --dump asm | FileCheck %s --check-prefix=ASM
// Not without FMA, where computing takes longer than memory.
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v2 --dump tile | FileCheck %s --check-prefix=NONE

// CHECK: tile.func @k0_cross_entropy({{.*}} grid 65
// CHECK: scf.for %{{.*}} iter_args(%{{.*}}) -> (f32)
// CHECK: tile.prefetch {{.*}} {later} : memref<129x4096xf32>
// CHECK: tile.func @k1_cross_entropy(
// CHECK-NOT: later
// ASM: prefetcht1
// NONE: tile.func @k0_cross_entropy(
// NONE-NOT: -> (f32)
// NONE: tile.prefetch
func.func @losses(%x: tensor<129x4096xf32> {tessera.name = "x"}, %l: tensor<129xi64> {tessera.name = "l"},
                  %y: tensor<3x64xf32> {tessera.name = "y"}, %k: tensor<3xi64> {tessera.name = "k"})
    -> (tensor<129xf32> {tessera.name = "a"}, tensor<3xf32> {tessera.name = "b"}) attributes {tessera.entry = "infer"} {
  %a = tessera.cross_entropy %x, %l : (tensor<129x4096xf32>, tensor<129xi64>) -> tensor<129xf32>
  %b = tessera.cross_entropy %y, %k : (tensor<3x64xf32>, tensor<3xi64>) -> tensor<3xf32>
  return %a, %b : tensor<129xf32>, tensor<3xf32>
}
