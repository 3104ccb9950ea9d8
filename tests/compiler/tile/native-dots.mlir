// SPDX-License-Identifier: Apache-2.0
// Products of bf16 under numerics "native" are dot products where the CPU has them, of weights in pairs of rows; f16, other CPUs and portable numerics have none.
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v4-bf16 --numerics native --dump tile | FileCheck %s
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v4 --numerics native --dump tile | FileCheck %s --check-prefix=NONE
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v4-bf16 --dump tile | FileCheck %s --check-prefix=NONE

// NONE-NOT: tile.dot
// NONE-NOT: pairs
// NONE: tile.func
// NONE-NOT: tile.dot

// CHECK: %[[P:.*]] = tsched.call @p0_pack(%{{.*}}) : (tensor<65x100xbf16>) -> tensor<7x33x32xbf16>
// CHECK: tsched.call @[[K:.*]]_packed(%arg0, %[[P]])
// CHECK: tile.func @[[K]]_packed(
// CHECK: %[[B:.*]] = tile.load %arg1[%{{.*}}] : memref<7x33x32xbf16> -> vector<32xbf16>
// CHECK: %[[A:.*]] = tile.load %arg0[%{{.*}}] : memref<40x65xbf16> -> vector<2xbf16>
// CHECK: tile.dot %[[A]], %[[B]], %{{.*}} : vector<2xbf16>, vector<32xbf16>, vector<16xf32>
// The element behind the last pair is a zero.
// CHECK: tile.load %arg0[%{{.*}}] : memref<40x65xbf16> -> bf16
// CHECK-NOT: tile.dot %{{.*}} vector<64x
// CHECK: tile.func @{{.*}}(%arg0: memref<40x64xf16>
// CHECK-NOT: tile.dot
// CHECK: tile.func @p0_pack(
// CHECK: vector.shuffle %{{.*}} [0, 16, 1, 17, 2, 18,
func.func @predict(%x: tensor<40x65xbf16> {tessera.name = "x"}, %h: tensor<40x64xf16> {tessera.name = "h"})
    -> (tensor<40x100xbf16> {tessera.name = "y"}, tensor<40x100xf16> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<65x100xbf16>
  %v = tessera.param "v" init = #tessera.constant<1.0> : tensor<64x100xf16>
  %y = tessera.matmul %x, %w : (tensor<40x65xbf16>, tensor<65x100xbf16>) -> tensor<40x100xbf16>
  %z = tessera.matmul %h, %v : (tensor<40x64xf16>, tensor<64x100xf16>) -> tensor<40x100xf16>
  return %y, %z : tensor<40x100xbf16>, tensor<40x100xf16>
}
