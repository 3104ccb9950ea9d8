// SPDX-License-Identifier: Apache-2.0
// Columns that fill at most half of the last vector are computed in half a vector where vectors have 64 bytes; results are stored as if it were whole.
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v4 --dump tile | FileCheck %s
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v3 --dump tile | FileCheck %s --check-prefix=LEVEL3
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v4 --dump asm | FileCheck %s --check-prefix=ASM

// CHECK: tile.func @{{.*}}matmul
// CHECK: %[[A:.*]] = tile.load %arg0[%{{.*}}] : memref<14x70xf32> -> f32
// CHECK: %[[WHOLE:.*]] = vector.broadcast %[[A]] : f32 to vector<16xf32>
// CHECK: math.fma %[[WHOLE]], %{{.*}} : vector<16xf32>
// CHECK: %[[HALF:.*]] = vector.broadcast %[[A]] : f32 to vector<8xf32>
// CHECK: math.fma %[[HALF]], %{{.*}} : vector<8xf32>
// CHECK: vector.shuffle %{{.*}} [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] : vector<8xf32>, vector<8xf32>
// CHECK: tile.func @{{.*}}conv2d
// CHECK: math.fma {{.*}} : vector<8xf32>
// LEVEL3-NOT: vector<4xf32>

// Both read one register.
// ASM: vbroadcastss {{.*}}(%{{.*}}), %zmm[[R:[0-9]+]]
// ASM-NEXT: vfmadd231ps {{.*}}%zmm[[R]]{{.*}}%zmm
// ASM: vfmadd231ps {{.*}}%ymm[[R]]{{.*}}%ymm
func.func @predict(%x: tensor<14x70xf32> {tessera.name = "x"}, %h: tensor<1x9x9x5xf32> {tessera.name = "h"})
    -> (tensor<14x23xf32> {tessera.name = "y"}, tensor<1x7x7x19xf32> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<70x23xf32>
  %v = tessera.param "v" init = #tessera.constant<1.0> : tensor<3x3x5x19xf32>
  %y = tessera.matmul %x, %w : (tensor<14x70xf32>, tensor<70x23xf32>) -> tensor<14x23xf32>
  %z = tessera.conv2d %h, %v {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], groups = 1}
      : tensor<1x9x9x5xf32>, tensor<3x3x5x19xf32> -> tensor<1x7x7x19xf32>
  return %y, %z : tensor<14x23xf32>, tensor<1x7x7x19xf32>
}
