// SPDX-License-Identifier: Apache-2.0
// Schedule IR guide, 4.4, as written there.
// RUN: tessera-opt %s | tessera-opt | FileCheck %s
// RUN: tessera-opt -mlir-print-op-generic %s | tessera-opt | FileCheck %s
// RUN: tessera-opt -pm-v1_1-verify --no-output %s

func.func private @attention() {
  return
}
%attn = tsched.fuse @attention()
// CHECK: tsched.tile %{{.*}} chosen = [128, 128, 64] {source = "autotune"}
// CHECK: tsched.collective %{{.*}} {algo = "ring", quantize = "fp8"}
// Attach autotune results to sched IR
tsched.tile %attn chosen = [128,128,64] { source = "autotune" }
tsched.collective %attn { algo = "ring", quantize = "fp8" }
