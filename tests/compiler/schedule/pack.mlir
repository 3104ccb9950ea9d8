// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tsched-fuse -tsched-pack -split-input-file %s | FileCheck %s

// One pack for two products and two entries; the transposed reading is another one; what the entry
// assigns stays as it is.
// CHECK-LABEL: func.func @predict
// CHECK: %[[W:.*]] = tessera.param "w"
// CHECK: %[[P:.*]] = tsched.call @p0_pack(%[[W]]) : (tensor<96x96xf32>) -> tensor<6x96x16xf32>
// CHECK: %[[Y:.*]] = tsched.call @[[K:.*]]_packed(%arg0, %[[P]])
// CHECK: tsched.call @[[K]]_packed(%[[Y]], %[[P]])
// CHECK: %[[T:.*]] = tsched.call @p1_pack(%[[W]])
// CHECK: tsched.call @{{.*}}_packed(%{{.*}}, %[[T]])
func.func @predict(%x: tensor<8x96xf32> {tessera.data = "x"}) -> (tensor<8x96xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %w = tessera.param "w" init = #tessera.normal<0.0, 1.0> : tensor<96x96xf32>
  %a = tessera.matmul %x, %w : (tensor<8x96xf32>, tensor<96x96xf32>) -> tensor<8x96xf32>
  %b = tessera.matmul %a, %w : (tensor<8x96xf32>, tensor<96x96xf32>) -> tensor<8x96xf32>
  %c = tessera.matmul %b, %w {transpose_b = true} : (tensor<8x96xf32>, tensor<96x96xf32>) -> tensor<8x96xf32>
  return %c : tensor<8x96xf32>
}
// CHECK-LABEL: func.func @again
// CHECK: %[[Q:.*]] = tsched.call @p0_pack(
// CHECK: tsched.call @{{.*}}_packed(%arg0, %[[Q]])
func.func @again(%x: tensor<3x96xf32> {tessera.data = "z"}) -> (tensor<3x96xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %w = tessera.param "w" init = #tessera.normal<0.0, 1.0> : tensor<96x96xf32>
  %a = tessera.matmul %x, %w : (tensor<3x96xf32>, tensor<96x96xf32>) -> tensor<3x96xf32>
  return %a : tensor<3x96xf32>
}
// CHECK-LABEL: func.func @train
// CHECK-NOT: _pack
// CHECK: tessera.assign
func.func @train(%x: tensor<8x96xf32> {tessera.data = "x"}) -> (tensor<8x96xf32> {tessera.name = "y"})
    attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.normal<0.0, 1.0> : tensor<96x96xf32>
  %a = tessera.matmul %x, %w : (tensor<8x96xf32>, tensor<96x96xf32>) -> tensor<8x96xf32>
  %n = tessera.add %w, %w : tensor<96x96xf32>
  tessera.assign %n to "w" : tensor<96x96xf32>
  return %a : tensor<8x96xf32>
}
// CHECK: tsched.func @{{.*}}_packed(%{{.*}}: tensor<8x96xf32>, %[[S:.*]]: tensor<6x96x16xf32>)
// CHECK-NEXT: %[[U:.*]] = tsched.unpack %[[S]] : tensor<6x96x16xf32> -> tensor<96x96xf32>
// CHECK-NEXT: tessera.matmul %{{.*}}, %[[U]]
// CHECK: tsched.func @p0_pack(%[[M:.*]]: tensor<96x96xf32>) -> tensor<6x96x16xf32> attributes {{.*}}kind = "pack"
// CHECK-NEXT: tsched.pack %[[M]]

// -----

// Left as they are: a matrix that stays in the cache, one of few columns, one that is also added,
// and one that is computed. A matrix of bf16 that many rows read lies in strips of f32, that few
// rows read as it is.
// CHECK-LABEL: func.func @small
// CHECK-NOT: _pack
// CHECK: tsched.call @p0_pack(%{{.*}}) : (tensor<512x512xbf16>) -> tensor<32x512x16xf32>
// CHECK: tsched.call @p1_pack(%{{.*}}) : (tensor<512x512xbf16>) -> tensor<16x512x32xbf16>
// CHECK-NOT: _pack(
// CHECK: return
func.func @small(%x: tensor<64x512xf32> {tessera.data = "x"}, %z: tensor<64x512xbf16> {tessera.data = "z"}, %y: tensor<4x512xbf16> {tessera.data = "y"})
    -> (tensor<64x8xf32> {tessera.name = "a"}, tensor<64x17xf32> {tessera.name = "b"}, tensor<64x512xf32> {tessera.name = "c"},
        tensor<64x512xbf16> {tessera.name = "d"}, tensor<4x512xbf16> {tessera.name = "e"}) attributes {tessera.entry = "infer"} {
  %s = tessera.param "s" init = #tessera.normal<0.0, 1.0> : tensor<512x8xf32>
  %f = tessera.param "f" init = #tessera.normal<0.0, 1.0> : tensor<512x17xf32>
  %g = tessera.param "g" init = #tessera.normal<0.0, 1.0> : tensor<512x512xf32>
  %h = tessera.param "h" init = #tessera.constant<1.0> : tensor<512x512xbf16>
  %a = tessera.matmul %x, %s : (tensor<64x512xf32>, tensor<512x8xf32>) -> tensor<64x8xf32>
  %b = tessera.matmul %x, %f : (tensor<64x512xf32>, tensor<512x17xf32>) -> tensor<64x17xf32>
  %k = tessera.exp %g : tensor<512x512xf32>
  %c = tessera.matmul %x, %k : (tensor<64x512xf32>, tensor<512x512xf32>) -> tensor<64x512xf32>
  %d = tessera.matmul %z, %h : (tensor<64x512xbf16>, tensor<512x512xbf16>) -> tensor<64x512xbf16>
  %e = tessera.matmul %y, %h : (tensor<4x512xbf16>, tensor<512x512xbf16>) -> tensor<4x512xbf16>
  return %a, %b, %c, %d, %e : tensor<64x8xf32>, tensor<64x17xf32>, tensor<64x512xf32>, tensor<64x512xbf16>, tensor<4x512xbf16>
}

// -----

// The filter of a convolution, and a matrix with dims of 1 before it; not where there are groups, nor in bf16.
// CHECK-LABEL: func.func @images
// CHECK: tsched.call @p0_pack(%{{.*}}) : (tensor<3x3x32x48xf32>) -> tensor<3x288x16xf32>
// CHECK: tsched.call @{{.*}}conv2d{{.*}}_packed(
// CHECK: tsched.call @p1_pack(%{{.*}}) : (tensor<1x1x96x96xf32>) -> tensor<6x96x16xf32>
// CHECK: tsched.call @{{.*}}matmul{{.*}}_packed(
// CHECK-NOT: _pack(
// CHECK: return
func.func @images(%x: tensor<1x8x8x32xf32> {tessera.data = "x"}, %y: tensor<1x8x8x96xf32> {tessera.data = "y"},
                  %z: tensor<1x8x8x32xbf16> {tessera.data = "z"})
    -> (tensor<1x6x6x48xf32> {tessera.name = "a"}, tensor<1x8x8x96xf32> {tessera.name = "b"},
        tensor<1x6x6x192xf32> {tessera.name = "c"}, tensor<1x6x6x48xbf16> {tessera.name = "d"})
    attributes {tessera.entry = "infer"} {
  %f = tessera.param "f" init = #tessera.normal<0.0, 1.0> : tensor<3x3x32x48xf32>
  %p = tessera.param "p" init = #tessera.normal<0.0, 1.0> : tensor<1x1x96x96xf32>
  %g = tessera.param "g" init = #tessera.normal<0.0, 1.0> : tensor<3x3x16x192xf32>
  %h = tessera.param "h" init = #tessera.constant<1.0> : tensor<3x3x32x48xbf16>
  %a = tessera.conv2d %x, %f {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<1x8x8x32xf32>, tensor<3x3x32x48xf32>) -> tensor<1x6x6x48xf32>
  %b = tessera.matmul %y, %p : (tensor<1x8x8x96xf32>, tensor<1x1x96x96xf32>) -> tensor<1x8x8x96xf32>
  %c = tessera.conv2d %x, %g {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], groups = 2} : (tensor<1x8x8x32xf32>, tensor<3x3x16x192xf32>) -> tensor<1x6x6x192xf32>
  %d = tessera.conv2d %z, %h {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<1x8x8x32xbf16>, tensor<3x3x32x48xbf16>) -> tensor<1x6x6x48xbf16>
  return %a, %b, %c, %d : tensor<1x6x6x48xf32>, tensor<1x8x8x96xf32>, tensor<1x6x6x192xf32>, tensor<1x6x6x48xbf16>
}

// -----

// A small filter, and one of few features, which each program of its convolution would pack; not where most would be zeros.
// CHECK-LABEL: func.func @filters
// CHECK: tsched.call @p0_pack(%{{.*}}) : (tensor<2x2x5x29xf32>) -> tensor<2x20x16xf32>
// CHECK: tsched.call @{{.*}}conv2d{{.*}}_packed(
// CHECK: tsched.call @p1_pack(%{{.*}}) : (tensor<3x3x32x10xf32>) -> tensor<1x288x16xf32>
// CHECK: tsched.call @{{.*}}conv2d{{.*}}_packed(
// CHECK-NOT: _pack(
// CHECK: return
func.func @filters(%x: tensor<1x8x8x5xf32> {tessera.data = "x"}, %y: tensor<1x8x8x32xf32> {tessera.data = "y"})
    -> (tensor<1x7x7x29xf32> {tessera.name = "a"}, tensor<1x6x6x10xf32> {tessera.name = "b"},
        tensor<1x6x6x7xf32> {tessera.name = "c"}) attributes {tessera.entry = "infer"} {
  %f = tessera.param "f" init = #tessera.normal<0.0, 1.0> : tensor<2x2x5x29xf32>
  %g = tessera.param "g" init = #tessera.normal<0.0, 1.0> : tensor<3x3x32x10xf32>
  %h = tessera.param "h" init = #tessera.normal<0.0, 1.0> : tensor<3x3x32x7xf32>
  %a = tessera.conv2d %x, %f {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<1x8x8x5xf32>, tensor<2x2x5x29xf32>) -> tensor<1x7x7x29xf32>
  %b = tessera.conv2d %y, %g {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<1x8x8x32xf32>, tensor<3x3x32x10xf32>) -> tensor<1x6x6x10xf32>
  %c = tessera.conv2d %y, %h {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<1x8x8x32xf32>, tensor<3x3x32x7xf32>) -> tensor<1x6x6x7xf32>
  return %a, %b, %c : tensor<1x7x7x29xf32>, tensor<1x6x6x10xf32>, tensor<1x6x6x7xf32>
}

// -----

// Names that a program has taken already.
// CHECK-LABEL: func.func @k0_matmul_packed
// CHECK: tsched.call @p1_pack(
// CHECK: tsched.call @k0_matmul_packed_3(
// CHECK: tsched.call @k0_matmul_packed_3(
// CHECK: tsched.func @k0_matmul_packed_3(
func.func @k0_matmul_packed(%x: tensor<8x96xf32> {tessera.data = "x"}) -> (tensor<8x96xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %w = tessera.param "w" init = #tessera.normal<0.0, 1.0> : tensor<96x96xf32>
  %a = tessera.matmul %x, %w : (tensor<8x96xf32>, tensor<96x96xf32>) -> tensor<8x96xf32>
  %b = tessera.matmul %a, %w : (tensor<8x96xf32>, tensor<96x96xf32>) -> tensor<8x96xf32>
  return %b : tensor<8x96xf32>
}
func.func @k0_matmul_packed_2(%x: tensor<8xf32> {tessera.data = "z"}) -> (tensor<8xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  return %x : tensor<8xf32>
}
func.func @p0_pack(%x: tensor<8xf32> {tessera.data = "z"}) -> (tensor<8xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  return %x : tensor<8xf32>
}
