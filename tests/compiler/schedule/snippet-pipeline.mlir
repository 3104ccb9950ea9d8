// SPDX-License-Identifier: Apache-2.0
// Schedule IR guide, 3.2, as written there.
// RUN: tessera-opt %s | tessera-opt | FileCheck %s
// RUN: tessera-opt -mlir-print-op-generic %s | tessera-opt | FileCheck %s
// RUN: tessera-opt -pm-v1_1-verify --no-output %s
// Every pass of scaling and resilience takes it.
// RUN: tessera-opt -tessera-optimizer-shard -tessera-insert-recompute -tessera-resilience-restart -tessera-export-deployment-manifest -tessera-sr-pipeline --no-output %s

func.func private @train(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
// CHECK: tsched.pipeline @train {axis = "pp", microbatch = 8 : i64, stages = 3 : i64}
// Three pipeline stages across axis pp
tsched.pipeline @train { axis="pp", stages=3, microbatch=8 }
