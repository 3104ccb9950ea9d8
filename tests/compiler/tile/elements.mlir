// SPDX-License-Identifier: Apache-2.0
// Elementwise kernels: a GPU's lanes move 16 bytes at a time where all runs begin at a multiple of 8 elements and none counts its places.
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_80,cpu:x86-64-v3 --dump tile > %t && FileCheck %s --input-file=%t
// RUN: FileCheck %s --check-prefix=CPU --input-file=%t

// CHECK: ---- tile cuda:sm_80
// CHECK-LABEL: tile.func @k0_
// CHECK: tile.load {{.*}} {tile.blocked} : memref<4000xf32> -> vector<256xf32>
// CHECK: tile.store {{.*}} {tile.blocked} : vector<256xbf16>, memref<4000xbf16>
// What is behind the last whole vector is masked, in its order, and done by the one program that has it.
// CHECK: scf.for
// CHECK: tile.load %{{.*}} mask
// CHECK-NOT: blocked
// CHECK-LABEL: tile.func @k1_
// CHECK-NOT: blocked
// A row that is broadcast is read the same way.
// CHECK-LABEL: tile.func @k2_
// CHECK: tile.load {{.*}} {tile.blocked} : memref<512xf32> -> vector<256xf32>
// CHECK-LABEL: tile.func @k3_
// CHECK-NOT: blocked
// CHECK: ---- tile cpu:x86-64-v3
// CPU: ---- tile cpu:x86-64-v3
// CPU-NOT: tile.blocked
func.func @even(%x: tensor<4000xf32> {tessera.name = "x"}) -> (tensor<4000xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.cast %x : tensor<4000xf32> -> tensor<4000xbf16>
  return %y : tensor<4000xbf16>
}
func.func @odd(%x: tensor<4001xf32> {tessera.name = "ox"}) -> (tensor<4001xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.cast %x : tensor<4001xf32> -> tensor<4001xbf16>
  return %y : tensor<4001xbf16>
}
func.func @row(%x: tensor<70x512xf32> {tessera.name = "rx"}, %r: tensor<512xf32> {tessera.name = "rr"}) -> (tensor<70x512xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.add %x, %r : (tensor<70x512xf32>, tensor<512xf32>) -> tensor<70x512xf32>
  return %y : tensor<70x512xf32>
}
func.func @places(%x: tensor<4000xi32> {tessera.name = "px"}) -> (tensor<4000xi32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %i = tessera.iota {axis = 0 : i64} : tensor<4000xi32>
  %y = tessera.add %x, %i : tensor<4000xi32>
  return %y : tensor<4000xi32>
}
