// SPDX-License-Identifier: Apache-2.0
// A snippet of the specification: it prints as it was written, in three forms, and canonicalizes.
// RUN: tessera-opt %s >%t.1 && FileCheck %s <%t.1
// RUN: tessera-opt %t.1 | diff %t.1 -
// RUN: tessera-opt --mlir-print-op-generic %s | tessera-opt | diff %t.1 -
// RUN: tessera-opt -canonicalize %s | FileCheck %s --check-prefix=CANON
// Every pass of scaling and resilience takes it.
// RUN: tessera-opt -tessera-optimizer-shard -tessera-insert-recompute -tessera-resilience-restart -tessera-export-deployment-manifest -tessera-sr-pipeline --no-output %s
// CHECK: tessera.resilience.region {mode = "replay"} {
// CHECK: } : !tessera_sr.token
// CANON: tessera_sr.resilience_region {
// CANON: } {mode = "replay"} : !tessera_sr.token
module {
func.func @fixture() {
%tok = tessera.resilience.region { mode = "replay" } {
  // critical stage (e.g., pipeline stage, expert dispatch)
} : !tessera.res.token

return
}
}
