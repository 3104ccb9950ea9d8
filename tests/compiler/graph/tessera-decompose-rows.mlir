// SPDX-License-Identifier: Apache-2.0
// Ops that are combinations of others; bf16 and f16 are computed in f32 and rounded once.
// RUN: tessera-opt -tessera-decompose %s | FileCheck %s

// CHECK-LABEL: func.func @small
func.func @small(%x: tensor<4xbf16>, %y: tensor<4xbf16>) -> (tensor<4xbf16>, tensor<bf16>, tensor<2xbf16>) {
  // CHECK-DAG: %[[A:.*]] = tessera.cast %arg0 : tensor<4xbf16> -> tensor<4xf32>
  // CHECK-DAG: %[[B:.*]] = tessera.cast %arg1 : tensor<4xbf16> -> tensor<4xf32>
  // CHECK: %[[S:.*]] = tessera.add %[[A]], %[[B]] : tensor<4xf32>
  // CHECK: tessera.cast %[[S]] : tensor<4xf32> -> tensor<4xbf16>
  %0 = tessera.add %x, %y : tensor<4xbf16>
  // CHECK: tessera.sum %{{.*}} {axes = [0]} : tensor<4xf32> -> tensor<f32>
  %1 = tessera.sum %x {axes = [0]} : tensor<4xbf16> -> tensor<bf16>
  // CHECK: tessera.slice %arg0 {{.*}} : tensor<4xbf16> -> tensor<2xbf16>
  %2 = tessera.slice %x {start = [1], size = [2]} : tensor<4xbf16> -> tensor<2xbf16>
  return %0, %1, %2 : tensor<4xbf16>, tensor<bf16>, tensor<2xbf16>
}

// Dropout is there in training only.
// CHECK-LABEL: func.func @train
func.func @train(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  // CHECK: %[[U:.*]] = tessera.philox %{{.*}}, %{{.*}}, %{{.*}} {stream = 7 : i64} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  // CHECK: tessera.compare ge %[[U]]
  %0 = tessera.dropout %x {rate = 0.5, stream = 7 : i64} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @infer
func.func @infer(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  // CHECK-NEXT: return %arg0
  %0 = tessera.dropout %x {rate = 0.5, stream = 7 : i64} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @many
func.func @many(%x: tensor<1xf32>) -> tensor<18xf32> {
  // CHECK: %[[A:.*]] = tessera.concat {{.*}} -> tensor<16xf32>
  // CHECK: %[[B:.*]] = tessera.concat {{.*}} -> tensor<2xf32>
  // CHECK: tessera.concat %[[A]], %[[B]]
  %0 = tessera.concat %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x {axis = 0} : tensor<1xf32> -> tensor<18xf32>
  return %0 : tensor<18xf32>
}
