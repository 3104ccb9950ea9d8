// SPDX-License-Identifier: Apache-2.0
// With numerics "native" a GPU's lanes move 16 bytes of a row at a time, where all rows begin at a multiple of 8 elements.
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_80,cpu:x86-64-v3 --numerics native --dump tile > %t && FileCheck %s --input-file=%t
// RUN: FileCheck %s --check-prefix=CPU --input-file=%t
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_80 --dump tile | FileCheck %s --check-prefix=PORTABLE

// CHECK: ---- tile cuda:sm_80
// CHECK: tile.func @k0_
// CHECK: tile.load {{.*}} {tile.spread} : memref<50x4352xf32> -> vector<1024xf32>
// What is behind the last whole vector is masked, and in its order.
// CHECK: tile.load %{{.*}} mask
// CHECK-NOT: spread
// CHECK: vector.extract_strided_slice
// CHECK: tile.store {{.*}} {tile.spread} : vector<1024xf32>
// CHECK: tile.func @k1_
// CHECK-NOT: tile.spread
// A short row of whole vectors is held by lanes: there is no loop over it, no memory of its own; it is read once, and widened in each stage.
// CHECK: tile.func @k2_
// CHECK-SAME: registers 128
// CHECK-NOT: tile.local
// CHECK-COUNT-9: tile.load %arg0[{{.*}}] {tile.spread} : memref<50x2304xbf16> -> vector<256xbf16>
// CHECK-NOT: tile.load %arg0
// CHECK: arith.extf {{.*}} {tile.again = 1 : i64}
// CHECK: tile.store {{.*}} {tile.spread} : vector<256xbf16>
// What is costly is held, too: one exponential of the device for each element.
// CHECK: tile.func @k3_
// CHECK-SAME: registers 168
// CHECK-COUNT-9: math.exp {{.*}}tile.approximate
// CHECK-NOT: math.exp
// CHECK: ---- tile cpu:x86-64-v3
// CPU: ---- tile cpu:x86-64-v3
// CPU-NOT: tile.spread
// PORTABLE-NOT: tile.spread
func.func @even(%x: tensor<50x4352xf32> {tessera.name = "x"}) -> (tensor<50x4352xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<50x4352xf32>
  return %y : tensor<50x4352xf32>
}
func.func @odd(%x: tensor<50x2307xf32> {tessera.name = "x"}) -> (tensor<50x2307xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<50x2307xf32>
  return %y : tensor<50x2307xf32>
}
func.func @held(%x: tensor<50x2304xbf16> {tessera.name = "hx"}, %s: tensor<2304xf32> {tessera.name = "hs"}) -> (tensor<50x2304xbf16> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %f = tessera.cast %x : tensor<50x2304xbf16> to tensor<50x2304xf32>
  %r = tessera.rmsnorm_safe %f, %s {axes = [1], eps = 1.0e-5} : tensor<50x2304xf32>, tensor<2304xf32> -> tensor<50x2304xf32>
  %y = tessera.cast %r : tensor<50x2304xf32> to tensor<50x2304xbf16>
  return %y : tensor<50x2304xbf16>
}
func.func @costly(%x: tensor<50x2304xbf16> {tessera.name = "cx"}) -> (tensor<50x2304xbf16> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<50x2304xbf16>
  return %y : tensor<50x2304xbf16>
}
