// SPDX-License-Identifier: Apache-2.0
// What an entry computes element by element of one tensor that it only reads becomes a group that runs once.
// RUN: tessera-opt -tsched-hoist -split-input-file %s | FileCheck %s
// Groups that are hoisted already stay as they are.
// RUN: tessera-opt -tsched-hoist -split-input-file %s >%t.1
// RUN: tessera-opt -tsched-hoist -split-input-file %t.1 | diff %t.1 -

// CHECK-NOT: tsched.func @k0_cast(
// CHECK: tsched.func @k0_cast_hoisted({{.*}} tsched.hoisted
tsched.func @k0_cast(%w: tensor<8x4xf32>) -> tensor<8x4xbf16> attributes {bytes = 192 : i64, flops = 32 : i64, kind = "map", source = "default"} {
  %0 = tessera.cast %w : tensor<8x4xf32> -> tensor<8x4xbf16>
  tsched.return %0 : tensor<8x4xbf16>
}
// CHECK: tsched.func @k1_cast(
// CHECK: tsched.func @k1_cast_hoisted({{.*}} tsched.hoisted
tsched.func @k1_cast(%w: tensor<4xf32>) -> tensor<4xbf16> attributes {bytes = 24 : i64, flops = 4 : i64, kind = "map", source = "default"} {
  %0 = tessera.cast %w : tensor<4xf32> -> tensor<4xbf16>
  tsched.return %0 : tensor<4xbf16>
}
// CHECK: tsched.func @k2_matmul(
tsched.func @k2_matmul(%x: tensor<2x8xbf16>, %w: tensor<8x4xbf16>) -> tensor<2x4xbf16> attributes {bytes = 112 : i64, flops = 128 : i64, kind = "matmul", source = "default"} {
  %0 = tessera.matmul %x, %w : (tensor<2x8xbf16>, tensor<8x4xbf16>) -> tensor<2x4xbf16>
  tsched.return %0 : tensor<2x4xbf16>
}

// CHECK: tsched.func @k3_add(
tsched.func @k3_add(%x: tensor<2x4xbf16>, %v: tensor<4xbf16>) -> tensor<2x4xbf16> attributes {bytes = 40 : i64, flops = 8 : i64, kind = "map", source = "default"} {
  %0 = tessera.add %x, %v : (tensor<2x4xbf16>, tensor<4xbf16>) -> tensor<2x4xbf16>
  tsched.return %0 : tensor<2x4xbf16>
}
// What others than calls name stays.
// CHECK: tsched.func @k4_vrank_sum(
tsched.func @k4_vrank_sum(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {bytes = 48 : i64, flops = 4 : i64, kind = "map", source = "default"} {
  %0 = tessera.add %x, %y : tensor<4xf32>
  tsched.return %0 : tensor<4xf32>
}

// CHECK: func.func @predict
// CHECK: tsched.call @k0_cast_hoisted(
// CHECK: tsched.call @k1_cast_hoisted(
// What is a result of the entry, or no tensor of the program, is cast in each run.
// CHECK: tsched.call @k1_cast(%{{[0-9]+}})
// CHECK: tsched.call @k1_cast(%arg1)
func.func @predict(%x: tensor<2x8xbf16> {tessera.name = "x"}, %b: tensor<4xf32> {tessera.name = "b"})
    -> (tensor<2x4xbf16> {tessera.name = "y"}, tensor<4xbf16> {tessera.name = "c"}, tensor<4xbf16> {tessera.name = "d"}) attributes {tessera.entry = "infer"} {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<8x4xf32>
  %v = tessera.param "v" init = #tessera.constant<1.0> : tensor<4xf32>
  %w16 = tsched.call @k0_cast(%w) : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %v16 = tsched.call @k1_cast(%v) : (tensor<4xf32>) -> tensor<4xbf16>
  %u16 = tsched.call @k1_cast(%v) : (tensor<4xf32>) -> tensor<4xbf16>
  %b16 = tsched.call @k1_cast(%b) : (tensor<4xf32>) -> tensor<4xbf16>
  %y = tsched.call @k2_matmul(%x, %w16) : (tensor<2x8xbf16>, tensor<8x4xbf16>) -> tensor<2x4xbf16>
  %z = tsched.call @k3_add(%y, %v16) : (tensor<2x4xbf16>, tensor<4xbf16>) -> tensor<2x4xbf16>
  return %z, %u16, %b16 : tensor<2x4xbf16>, tensor<4xbf16>, tensor<4xbf16>
}
// So is one that the entry assigns.
// CHECK: func.func @change
// CHECK: tsched.call @k1_cast(
func.func @change() -> (tensor<4xbf16> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  %v = tessera.param "v" init = #tessera.constant<1.0> : tensor<4xf32>
  %v16 = tsched.call @k1_cast(%v) : (tensor<4xf32>) -> tensor<4xbf16>
  tessera.assign %v to "v" : tensor<4xf32>
  return %v16 : tensor<4xbf16>
}

// -----

// A name that the program has taken already.
tsched.func @k0_cast(%w: tensor<8x4xf32>) -> tensor<8x4xbf16> attributes {bytes = 192 : i64, flops = 32 : i64, kind = "map", source = "default"} {
  %0 = tessera.cast %w : tensor<8x4xf32> -> tensor<8x4xbf16>
  tsched.return %0 : tensor<8x4xbf16>
}
// CHECK: tsched.func @k0_cast_hoisted_2({{.*}} tsched.hoisted
tsched.func @k1_matmul(%x: tensor<2x8xbf16>, %w: tensor<8x4xbf16>) -> tensor<2x4xbf16> attributes {bytes = 112 : i64, flops = 128 : i64, kind = "matmul", source = "default"} {
  %0 = tessera.matmul %x, %w : (tensor<2x8xbf16>, tensor<8x4xbf16>) -> tensor<2x4xbf16>
  tsched.return %0 : tensor<2x4xbf16>
}
// CHECK: func.func @k0_cast_hoisted(
// CHECK: tsched.call @k0_cast_hoisted_2(
func.func @k0_cast_hoisted(%x: tensor<2x8xbf16> {tessera.name = "x"}) -> (tensor<2x4xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<8x4xf32>
  %w16 = tsched.call @k0_cast(%w) : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %y = tsched.call @k1_matmul(%x, %w16) : (tensor<2x8xbf16>, tensor<8x4xbf16>) -> tensor<2x4xbf16>
  return %y : tensor<2x4xbf16>
}
