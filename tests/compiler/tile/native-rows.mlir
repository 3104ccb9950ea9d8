// SPDX-License-Identifier: Apache-2.0
// With numerics "native" a GPU's lanes move 16 bytes of a row at a time, where all rows begin at a multiple of 8 elements.
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_80,cpu:x86-64-v3 --numerics native --dump tile > %t && FileCheck %s --input-file=%t
// RUN: FileCheck %s --check-prefix=CPU --input-file=%t
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_80 --dump tile | FileCheck %s --check-prefix=PORTABLE

// CHECK: ---- tile cuda:sm_80
// CHECK: tile.func @k0_
// CHECK: tile.load {{.*}} {tile.spread} : memref<50x2304xf32> -> vector<1024xf32>
// What is behind the last whole vector is masked, and in its order.
// CHECK: tile.load %{{.*}} mask
// CHECK-NOT: spread
// CHECK: vector.extract_strided_slice
// CHECK: tile.store {{.*}} {tile.spread} : vector<1024xf32>
// CHECK: tile.func @k1_
// CHECK-NOT: tile.spread
// CHECK: ---- tile cpu:x86-64-v3
// CPU: ---- tile cpu:x86-64-v3
// CPU-NOT: tile.spread
// PORTABLE-NOT: tile.spread
func.func @even(%x: tensor<50x2304xf32> {tessera.name = "x"}) -> (tensor<50x2304xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<50x2304xf32>
  return %y : tensor<50x2304xf32>
}
func.func @odd(%x: tensor<50x2307xf32> {tessera.name = "x"}) -> (tensor<50x2307xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<50x2307xf32>
  return %y : tensor<50x2307xf32>
}
