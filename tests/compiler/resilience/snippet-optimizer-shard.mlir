// SPDX-License-Identifier: Apache-2.0
// A snippet of the specification: it prints as it was written, in three forms, and canonicalizes.
// RUN: tessera-opt %s >%t.1 && FileCheck %s <%t.1
// RUN: tessera-opt %t.1 | diff %t.1 -
// RUN: tessera-opt --mlir-print-op-generic %s | tessera-opt | diff %t.1 -
// RUN: tessera-opt -canonicalize %s | FileCheck %s --check-prefix=CANON
// Every pass of scaling and resilience takes it.
// RUN: tessera-opt -tessera-optimizer-shard -tessera-insert-recompute -tessera-resilience-restart -tessera-export-deployment-manifest -tessera-sr-pipeline --no-output %s
// CHECK: tessera.param : tensor<*xf16>
// CHECK: tessera.opt.state kind "adam_m" : !tessera.opt.state
// CHECK: tessera.optimizer.shard %{{.*}}, %{{.*}} {axis = "data", policy = "zero2"} : (tensor<*xf16>, !tessera.opt.state) -> (tensor<*xf16>, !tessera.opt.state)
// CANON: tessera_sr.optimizer_shard
module {
func.func @fixture() {
%p = "tessera.param"() : () -> tensor<*xf16>
%m = "tessera.opt.state"() {kind = "adam_m"} : () -> !tessera.opt.state
"tessera.optimizer.shard"(%p, %m) { axis = "data", policy = "zero2" } :
  (tensor<*xf16>, !tessera.opt.state) -> (tensor<*xf16>, !tessera.opt.state)

return
}
}
