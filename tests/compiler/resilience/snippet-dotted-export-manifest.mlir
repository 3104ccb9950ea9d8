// SPDX-License-Identifier: Apache-2.0
// A snippet of the specification: it prints as it was written, in three forms, and canonicalizes.
// RUN: tessera-opt %s >%t.1 && FileCheck %s <%t.1
// RUN: tessera-opt %t.1 | diff %t.1 -
// RUN: tessera-opt --mlir-print-op-generic %s | tessera-opt | diff %t.1 -
// RUN: tessera-opt -canonicalize %s | FileCheck %s --check-prefix=CANON
// Every pass of scaling and resilience takes it.
// RUN: tessera-opt -tessera-optimizer-shard -tessera-insert-recompute -tessera-resilience-restart -tessera-export-deployment-manifest -tessera-sr-pipeline --no-output %s
// CHECK: tessera.system.export_manifest {include = ["mesh", "pipeline", "optimizer", "checkpoint", "collectives"], path = "manifest.json"}
// CANON: tessera_sr.export_manifest
module {
func.func @fixture() {
tessera.system.export_manifest {
  path = "manifest.json",
  include = ["mesh","pipeline","optimizer","checkpoint","collectives"]
}

return
}
}
