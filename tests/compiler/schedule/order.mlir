// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tsched-fuse -split-input-file %s | FileCheck %s

// The update of w could run first, but it overwrites what the matmul reads, and a bad label found by
// cross_entropy must find everything unchanged: so it runs last.
// CHECK-LABEL: @update_last
// CHECK: tsched.call @k0_matmul
// CHECK-NEXT: tsched.call @k1_cross_entropy
// CHECK-NEXT: tsched.call @k2_mul
// CHECK-NEXT: tessera.assign
func.func @update_last(%x: tensor<8x8xf32> {tessera.data = "x"}, %labels: tensor<8xi64> {tessera.data = "labels"})
    -> (tensor<8xf32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<8x8xf32>
  %half = tessera.constant dense<0.5> : tensor<f32>
  %next = tessera.mul %w, %half : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  tessera.assign %next to "w" : tensor<8x8xf32>
  %y = tessera.matmul %x, %w : tensor<8x8xf32>
  %loss = tessera.cross_entropy %y, %labels : (tensor<8x8xf32>, tensor<8xi64>) -> tensor<8xf32>
  return %loss : tensor<8xf32>
}

// -----

// Two large gradients, each with its own update: the first update runs before the second gradient
// is computed, so that the gradients need not live together.
// CHECK-LABEL: @update_soon
// CHECK: %[[G:.*]] = tsched.call @[[T:.*]](%arg0)
// CHECK-NEXT: tsched.call @[[U:.*]](%{{.*}}, %[[G]])
// CHECK-NEXT: tsched.call @[[T]](%arg1)
// CHECK-NEXT: tsched.call @[[U]]
func.func @update_soon(%x: tensor<64x64xf32> {tessera.data = "x"}, %z: tensor<64x64xf32> {tessera.data = "z"})
    attributes {tessera.entry = "train"} {
  %v = tessera.param "v" init = #tessera.constant<0.0> : tensor<64x64xf32>
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<64x64xf32>
  %g = tessera.transpose %x {permutation = [1, 0]} : tensor<64x64xf32>
  %h = tessera.transpose %z {permutation = [1, 0]} : tensor<64x64xf32>
  %a = tessera.sub %v, %g : tensor<64x64xf32>
  %b = tessera.sub %w, %h : tensor<64x64xf32>
  tessera.assign %a to "v" : tensor<64x64xf32>
  tessera.assign %b to "w" : tensor<64x64xf32>
  return
}
