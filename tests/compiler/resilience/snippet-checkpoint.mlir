// SPDX-License-Identifier: Apache-2.0
// A snippet of the specification: it prints as it was written, in three forms, and canonicalizes.
// RUN: tessera-opt %s >%t.1 && FileCheck %s <%t.1
// RUN: tessera-opt %t.1 | diff %t.1 -
// RUN: tessera-opt --mlir-print-op-generic %s | tessera-opt | diff %t.1 -
// RUN: tessera-opt -canonicalize %s | FileCheck %s --check-prefix=CANON
// Every pass of scaling and resilience takes it.
// RUN: tessera-opt -tessera-optimizer-shard -tessera-insert-recompute -tessera-resilience-restart -tessera-export-deployment-manifest -tessera-sr-pipeline --no-output %s
// CHECK: tessera_sr.checkpoint {
// CHECK: tessera.tile.gemm %{{.*}}, %{{.*}} : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
// CHECK: tessera.tile.relu
// CANON: tessera_sr.checkpoint {
module {
func.func @fixture(%a: tensor<?x?xf16>, %b: tensor<?x?xf16>) {
tessera_sr.checkpoint {
  %y = "tessera.tile.gemm"(%a, %b) : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
  "tessera.tile.relu"(%y) : (tensor<?x?xf32>) -> tensor<?x?xf32>
}

return
}
}
