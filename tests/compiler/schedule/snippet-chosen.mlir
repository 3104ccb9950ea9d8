// SPDX-License-Identifier: Apache-2.0
// Schedule IR guide, 4.4, as written there.
// RUN: tessera-opt %s | tessera-opt | FileCheck %s
// RUN: tessera-opt -mlir-print-op-generic %s | tessera-opt | FileCheck %s
// RUN: tessera-opt -pm-v1_1-verify --no-output %s
// Every pass of scaling and resilience takes it.
// RUN: tessera-opt -tessera-optimizer-shard -tessera-insert-recompute -tessera-resilience-restart -tessera-export-deployment-manifest -tessera-sr-pipeline --no-output %s

// The sizes go to the op that has tiles.
// RUN: tessera-opt -tsched-apply %s | FileCheck %s --check-prefix=APPLY
// APPLY: tessera.attention
// APPLY-SAME: tsched.tile = [128, 128, 64]
// APPLY-NOT: tsched.collective
func.func private @attention() {
  %q = tessera.iota {axis = 3 : i64} : tensor<1x2x256x64xf32>
  %0 = tessera.attention %q, %q, %q : tensor<1x2x256x64xf32>
  return
}
%attn = tsched.fuse @attention()
// CHECK: tsched.tile %{{.*}} chosen = [128, 128, 64] {source = "autotune"}
// CHECK: tsched.collective %{{.*}} {algo = "ring", quantize = "fp8"}
// Attach autotune results to sched IR
tsched.tile %attn chosen = [128,128,64] { source = "autotune" }
tsched.collective %attn { algo = "ring", quantize = "fp8" }
