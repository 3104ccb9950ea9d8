// SPDX-License-Identifier: Apache-2.0
// A product takes a matrix that a group widens for it as it is; other uses of what is widened, and other operands, stay.
// RUN: tessera-opt -tsched-narrow %s | FileCheck %s
// RUN: tessera-opt -tsched-narrow -tsched-pack %s | FileCheck %s --check-prefix=PACK

// CHECK-NOT: tsched.func @k0_cast(
tsched.func @k0_cast(%w: tensor<96x96xbf16>) -> tensor<96x96xf32> attributes {bytes = 55296 : i64, flops = 9216 : i64, kind = "map", source = "default"} {
  %0 = tessera.cast %w : tensor<96x96xbf16> -> tensor<96x96xf32>
  tsched.return %0 : tensor<96x96xf32>
}
// CHECK: tsched.func @k1_cast(
tsched.func @k1_cast(%w: tensor<96x96xf16>) -> tensor<96x96xf32> attributes {bytes = 55296 : i64, flops = 9216 : i64, kind = "map", source = "default"} {
  %0 = tessera.cast %w : tensor<96x96xf16> -> tensor<96x96xf32>
  tsched.return %0 : tensor<96x96xf32>
}
// Not widened alone, and narrowed.
// CHECK: tsched.func @k2_cast_add(
tsched.func @k2_cast_add(%w: tensor<96x96xbf16>) -> tensor<96x96xf32> attributes {bytes = 55296 : i64, flops = 18432 : i64, kind = "map", source = "default"} {
  %0 = tessera.cast %w : tensor<96x96xbf16> -> tensor<96x96xf32>
  %1 = tessera.add %0, %0 : tensor<96x96xf32>
  tsched.return %1 : tensor<96x96xf32>
}
// CHECK: tsched.func @k3_matmul(%{{.*}}: tensor<40x96xf32>, %{{.*}}: tensor<96x96xf32>)
// CHECK: tsched.func @k3_matmul_f16(%[[X:.*]]: tensor<40x96xf32>, %[[W:.*]]: tensor<96x96xf16>)
// CHECK-NEXT: %[[H:.*]] = tessera.cast %[[W]] : tensor<96x96xf16> -> tensor<96x96xf32>
// CHECK-NEXT: tessera.matmul %[[X]], %[[H]]
// CHECK: tsched.func @k3_matmul_bf16(%{{.*}}: tensor<40x96xf32>, %{{.*}}: tensor<96x96xbf16>)
tsched.func @k3_matmul(%x: tensor<40x96xf32>, %w: tensor<96x96xf32>) -> tensor<40x96xf32> attributes {bytes = 67584 : i64, flops = 737280 : i64, kind = "matmul", source = "default"} {
  %0 = tessera.matmul %x, %w : (tensor<40x96xf32>, tensor<96x96xf32>) -> tensor<40x96xf32>
  tsched.return %0 : tensor<40x96xf32>
}
// CHECK-NOT: tsched.func @k4_matmul(
// CHECK: tsched.func @k4_matmul_bf16(
tsched.func @k4_matmul(%x: tensor<4x96xf32>, %w: tensor<96x96xf32>) -> tensor<4x96xf32> attributes {bytes = 39936 : i64, flops = 73728 : i64, kind = "matmul", source = "default"} {
  %0 = tessera.matmul %x, %w {transpose_b = true} : (tensor<4x96xf32>, tensor<96x96xf32>) -> tensor<4x96xf32>
  tsched.return %0 : tensor<4x96xf32>
}

// Many rows of the weights: strips of f32; few: of bf16.
// CHECK: func.func @predict
// CHECK: %[[B:.*]] = tessera.param "b"
// CHECK-NOT: @k0_cast
// CHECK: %[[Y:.*]] = tsched.call @k3_matmul_bf16(%arg0, %[[B]])
// CHECK: %[[F:.*]] = tsched.call @k1_cast(%arg2)
// CHECK: %[[Z:.*]] = tsched.call @k3_matmul_f16(%[[Y]], %arg2)
// CHECK: %[[S:.*]] = tsched.call @k2_cast_add(%[[B]])
// CHECK: tsched.call @k3_matmul(%[[Z]], %[[S]])
// CHECK: tsched.call @k4_matmul_bf16(%arg1, %[[B]])
// PACK: tsched.func @k3_matmul_bf16_packed(
// PACK-NEXT: tsched.unpack %{{.*}} : tensor<6x96x16xf32> -> tensor<96x96xf32>
// PACK-NEXT: tessera.matmul
// PACK: tsched.func @k4_matmul_bf16_packed(
// PACK-NEXT: tsched.unpack %{{.*}} : tensor<3x96x32xbf16> -> tensor<96x96xf32>
// PACK-NEXT: tessera.matmul
// PACK: func.func @predict
// PACK: %[[MANY:.*]] = tsched.call @[[P:.*]](%{{.*}}) : (tensor<96x96xbf16>) -> tensor<6x96x16xf32>
// PACK: tsched.call @k3_matmul_bf16_packed(%arg0, %[[MANY]])
// PACK: tsched.call @k3_matmul_f16(
// PACK: %[[FEW:.*]] = tsched.call @[[Q:.*]](%{{.*}}) : (tensor<96x96xbf16>) -> tensor<3x96x32xbf16>
// PACK: tsched.call @k4_matmul_bf16_packed(%arg1, %[[FEW]])
func.func @predict(%x: tensor<40x96xf32> {tessera.name = "x"}, %v: tensor<4x96xf32> {tessera.name = "v"}, %h: tensor<96x96xf16> {tessera.name = "h"})
    -> (tensor<40x96xf32> {tessera.name = "r"}, tensor<96x96xf32> {tessera.name = "f"}, tensor<4x96xf32> {tessera.name = "s"}) attributes {tessera.entry = "infer"} {
  %b = tessera.param "b" init = #tessera.constant<1.0> : tensor<96x96xbf16>
  %w = tsched.call @k0_cast(%b) : (tensor<96x96xbf16>) -> tensor<96x96xf32>
  %y = tsched.call @k3_matmul(%x, %w) : (tensor<40x96xf32>, tensor<96x96xf32>) -> tensor<40x96xf32>
  %f = tsched.call @k1_cast(%h) : (tensor<96x96xf16>) -> tensor<96x96xf32>
  %z = tsched.call @k3_matmul(%y, %f) : (tensor<40x96xf32>, tensor<96x96xf32>) -> tensor<40x96xf32>
  %d = tsched.call @k2_cast_add(%b) : (tensor<96x96xbf16>) -> tensor<96x96xf32>
  %r = tsched.call @k3_matmul(%z, %d) : (tensor<40x96xf32>, tensor<96x96xf32>) -> tensor<40x96xf32>
  %u = tsched.call @k0_cast(%b) : (tensor<96x96xbf16>) -> tensor<96x96xf32>
  %s = tsched.call @k4_matmul(%v, %u) : (tensor<4x96xf32>, tensor<96x96xf32>) -> tensor<4x96xf32>
  return %r, %f, %s : tensor<40x96xf32>, tensor<96x96xf32>, tensor<4x96xf32>
}
