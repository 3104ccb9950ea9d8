// SPDX-License-Identifier: Apache-2.0
// `allow_tf32` stays with a product: in its gradients, where transposes fold, from level to level; others do not get it.
// RUN: tessera-opt -tessera-autodiff %s | FileCheck %s
// RUN: tessera-opt -tessera-graph %s | FileCheck %s --check-prefix=ALL
// RUN: rm -rf %t.levels
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v3 --dump schedule --dump-dir=%t.levels
// RUN: FileCheck %s --check-prefix=LEVEL --input-file=%t.levels/schedule.mlir
// RUN: tessera-aot build --from=schedule %t.levels/schedule.mlir -o %t.again.tsb --target cpu:x86-64-v3 --dump schedule | FileCheck %s --check-prefix=LEVEL

// LEVEL: tessera.matmul %{{.*}} {allow_tf32
func.func @train(%x: tensor<4x3xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.uniform<-1.0, 1.0> : tensor<3x2xf32>
  %v = tessera.param "v" init = #tessera.uniform<-1.0, 1.0> : tensor<2x2xf32>
  // CHECK: %[[H:.*]] = tessera.matmul %{{.*}} {allow_tf32}
  %0 = tessera.matmul %x, %w {allow_tf32} : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  // CHECK: tessera.matmul %[[H]], %{{.*}} : (tensor<4x2xf32>, tensor<2x2xf32>)
  %1 = tessera.matmul %0, %v : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %q = tessera.mul %1, %1 : tensor<4x2xf32>
  %loss = tessera.sum %q {axes = [0, 1]} : tensor<4x2xf32> -> tensor<f32>
  // Of v's product, of w's.
  // CHECK-DAG: tessera.matmul %{{.*}} {transpose_b = true} : (tensor<4x2xf32>, tensor<2x2xf32>)
  // CHECK-DAG: tessera.matmul %[[H]], %{{.*}} {transpose_a = true} : tensor<4x2xf32>
  // CHECK-DAG: tessera.matmul %{{.*}} {allow_tf32, transpose_a = true} : (tensor<4x3xf32>, tensor<4x2xf32>)
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 0.01, beta1 = 0.9, beta2 = 0.95, eps = 1.0e-8, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}
// ALL-LABEL: @turned
func.func @turned(%a: tensor<5x3xf32> {tessera.name = "a"}, %b: tensor<5x4xf32> {tessera.name = "b"})
    -> (tensor<3x4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.transpose %a {permutation = [1, 0]} : tensor<5x3xf32> -> tensor<3x5xf32>
  // ALL: tessera.matmul %arg0, %arg1 {allow_tf32, transpose_a = true}
  %1 = tessera.matmul %0, %b {allow_tf32} : (tensor<3x5xf32>, tensor<5x4xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}
