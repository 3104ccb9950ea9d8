// SPDX-License-Identifier: Apache-2.0
// Schedule IR guide, 3.1: a plan of attention, as written there, and its parts in pretty form.
// RUN: tessera-opt %s | tessera-opt | FileCheck %s
// RUN: tessera-opt -mlir-print-op-generic %s | tessera-opt | FileCheck %s
// RUN: tessera-opt -pm-v1_1-verify --no-output %s
// Every pass of scaling and resilience takes it.
// RUN: tessera-opt -tessera-optimizer-shard -tessera-insert-recompute -tessera-resilience-restart -tessera-export-deployment-manifest -tessera-sr-pipeline --no-output %s

func.func private @attention(%q: tensor<8x4x64x32xf32>, %k: tensor<8x4x64x32xf32>, %v: tensor<8x4x64x32xf32>)
    -> tensor<8x4x64x32xf32> {
  %0 = tessera.attention %q, %k, %v : tensor<8x4x64x32xf32>
  return %0 : tensor<8x4x64x32xf32>
}

func.func private @plan(%q: tensor<8x4x64x32xf32>, %k: tensor<8x4x64x32xf32>, %v: tensor<8x4x64x32xf32>) {
  // CHECK: %[[Q:.*]] = tsched.value %{{.*}} : tensor<8x4x64x32xf32>
  %Q = tsched.value %q : tensor<8x4x64x32xf32>
  %K = tsched.value %k : tensor<8x4x64x32xf32>
  %V = tsched.value %v : tensor<8x4x64x32xf32>
// CHECK: tsched.module {
// CHECK-NEXT: %[[A:.*]] = tsched.fuse @attention(%[[Q]], %{{.*}}, %{{.*}}) {pattern = "flash_attention"}
// CHECK-NEXT: tsched.layout %[[Q]] {mesh_axes = ["dp"], partition = ["batch"]}
// CHECK: tsched.tile %[[A]] candidates = {{\[\[}}128, 128, 64], [64, 128, 64], [128, 64, 64]]
// CHECK-NEXT: tsched.collective %[[A]] {axis = "tp", pattern = "RS_MM_AG"}
// CHECK-NEXT: %[[F:.*]] = tsched.materialize %[[A]] : !tsched.func
// CHECK-NEXT: tsched.return %[[F]]{{$}}
tsched.module {
  %attn = tsched.fuse @attention(%Q, %K, %V)
           { pattern = "flash_attention" }

  // Shard layouts: heads on tp, batch on dp
  tsched.layout %Q {partition = ["batch"], mesh_axes = ["dp"]}
  tsched.layout %K {partition = ["head"],  mesh_axes = ["tp"]}
  tsched.layout %V {partition = ["head"],  mesh_axes = ["tp"]}

  // Tile policy candidates (BM, BN, BK)
  tsched.tile %attn candidates = [[128,128,64], [64,128,64], [128,64,64]]

  // Collective plan for logits RS/AG
  tsched.collective %attn { pattern = "RS_MM_AG", axis = "tp" }

  // Emit a sched.func for each fusion group
  %f = tsched.materialize %attn : !tsched.func
  tsched.return %f
}
  return
}
