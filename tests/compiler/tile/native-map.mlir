// SPDX-License-Identifier: Apache-2.0
// With numerics "native" a GPU's elementwise kernels take the unit's functions where all results have 16 bits; not where one has more, nor else.
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_80,cpu:x86-64-v3 --numerics native --dump tile > %t && FileCheck %s --input-file=%t
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_80 --dump tile | FileCheck %s --check-prefix=PORTABLE

// CHECK: ---- tile cuda:sm_80
// CHECK: tile.func @k0_
// CHECK: math.tanh {{.*}} {tile.approximate}
// CHECK-NOT: tile.gelu
// CHECK: tile.func @k1_
// CHECK-NOT: tile.approximate
// CHECK: tile.func @k2_
// CHECK: math.tanh {{.*}} {tile.approximate}
// CHECK-NOT: math.exp
// CHECK: ---- tile cpu:x86-64-v3
// CHECK-NOT: tile.approximate
// PORTABLE-NOT: tile.approximate
func.func @narrow(%x: tensor<64x256xbf16> {tessera.name = "x"}) -> (tensor<64x256xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %f = tessera.cast %x : tensor<64x256xbf16> -> tensor<64x256xf32>
  %g = tessera.gelu %f {approximate = "tanh"} : tensor<64x256xf32>
  %y = tessera.cast %g : tensor<64x256xf32> -> tensor<64x256xbf16>
  return %y : tensor<64x256xbf16>
}
func.func @both(%x: tensor<64x256xbf16> {tessera.name = "bx"}) -> (tensor<64x256xbf16> {tessera.name = "y"}, tensor<64x256xf32> {tessera.name = "z"})
    attributes {tessera.entry = "infer"} {
  %f = tessera.cast %x : tensor<64x256xbf16> -> tensor<64x256xf32>
  %g = tessera.gelu %f {approximate = "tanh"} : tensor<64x256xf32>
  %y = tessera.cast %g : tensor<64x256xf32> -> tensor<64x256xbf16>
  return %y, %g : tensor<64x256xbf16>, tensor<64x256xf32>
}
func.func @sigmoid(%x: tensor<64x256xbf16> {tessera.name = "sx"}) -> (tensor<64x256xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.sigmoid %x : tensor<64x256xbf16>
  return %y : tensor<64x256xbf16>
}
