// SPDX-License-Identifier: Apache-2.0
// A snippet of the specification: it prints as it was written, in three forms, and canonicalizes.
// RUN: tessera-opt %s >%t.1 && FileCheck %s <%t.1
// RUN: tessera-opt %t.1 | diff %t.1 -
// RUN: tessera-opt --mlir-print-op-generic %s | tessera-opt | diff %t.1 -
// RUN: tessera-opt -canonicalize %s | FileCheck %s --check-prefix=CANON
// Every pass of scaling and resilience takes it; the token of the region orders what is exported.
// RUN: tessera-opt -tessera-optimizer-shard -tessera-insert-recompute -tessera-resilience-restart -tessera-export-deployment-manifest %s | FileCheck %s --check-prefix=ORDER
// RUN: tessera-opt -tessera-sr-pipeline %s | FileCheck %s --check-prefix=ORDER
// ORDER: %[[E:.*]] = tessera_sr.enter "region0"() {mode = "restart"} : () -> !async.token
// ORDER: %[[L:.*]] = tessera_sr.leave "region0"(%[[E]]) : (!async.token) -> !async.token
// ORDER: %[[S:.*]] = tessera_sr.export_begin "region0"(%[[L]]) : (!async.token) -> !async.token
// ORDER: async.await %[[L]]
// ORDER: async.await %[[S]]
// CHECK: tessera_sr.resilience_region {
// CHECK: : !tessera_sr.token
// CHECK: tessera.target.export %{{.*}} : !tessera_sr.token
// CANON: tessera_sr.resilience_region
// CANON: tessera_sr.export
module {
func.func @fixture() {
%t = tessera_sr.resilience_region {
  // pipeline stage work
} : !tessera_sr.token

// enforce ordering across async export/import
"tessera.target.export"(%t) : (!tessera_sr.token) -> ()

return
}
}
