// SPDX-License-Identifier: Apache-2.0
// Of few rows and a B that lies along K, the rows are packed, and B is read where it lies, an element at a time: tiles are of the result's transpose.
// Many rows pay for packing B; so do functions in the epilogue, which are computed along rows.
// RUN: tessera-aot build %s --until tile --target cpu:x86-64-v4 --dump tile | FileCheck %s
// RUN: tessera-aot build %s --until tile --target cpu:x86-64-v4-bf16 --numerics native --dump tile | FileCheck %s --check-prefix=DOTS

// CHECK: tile.func @k0_matmul(
// CHECK: tile.load %arg0[%{{.*}}]{{.*}} : memref<40x70xf32> -> vector<16xf32>
// CHECK: tile.load %arg1[%{{.*}}] : memref<304x70xf32> -> f32
// CHECK: tile.store %{{.*}}, %arg2[%{{.*}}] : vector<8xf32>, memref<40x304xf32>
// CHECK: tile.func @k1_matmul_gelu(
// CHECK-NOT: memref<304x70xf32> -> f32
// CHECK: tile.func @k2_matmul(
// CHECK-NOT: memref<304x70xf32> -> f32
// CHECK: tile.func @

// DOTS: tile.func @k3_matmul(
// DOTS: tile.load %arg1[%{{.*}}] : memref<304x70xbf16> -> vector<2xbf16>
// DOTS: tile.store %{{.*}}, %arg2[%{{.*}}] : vector<8xbf16>, memref<40x304xbf16>
func.func @predict(%x: tensor<40x70xf32> {tessera.name = "x"}, %y: tensor<40x70xf32> {tessera.name = "y"}, %many: tensor<300x70xf32> {tessera.name = "many"},
                   %w: tensor<304x70xf32> {tessera.name = "w"},
                   %h: tensor<40x70xbf16> {tessera.name = "h"}, %v: tensor<304x70xbf16> {tessera.name = "v"})
    -> (tensor<40x304xf32> {tessera.name = "a"}, tensor<40x304xf32> {tessera.name = "b"}, tensor<300x304xf32> {tessera.name = "c"},
        tensor<40x304xbf16> {tessera.name = "d"}) attributes {tessera.entry = "infer"} {
  %a = tessera.matmul %x, %w {transpose_b = true} : (tensor<40x70xf32>, tensor<304x70xf32>) -> tensor<40x304xf32>
  %e = tessera.matmul %y, %w {transpose_b = true} : (tensor<40x70xf32>, tensor<304x70xf32>) -> tensor<40x304xf32>
  %b = tessera.gelu %e : tensor<40x304xf32>
  %c = tessera.matmul %many, %w {transpose_b = true} : (tensor<300x70xf32>, tensor<304x70xf32>) -> tensor<300x304xf32>
  %d = tessera.matmul %h, %v {transpose_b = true} : (tensor<40x70xbf16>, tensor<304x70xbf16>) -> tensor<40x304xbf16>
  return %a, %b, %c, %d : tensor<40x304xf32>, tensor<40x304xf32>, tensor<300x304xf32>, tensor<40x304xbf16>
}
