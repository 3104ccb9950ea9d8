// SPDX-License-Identifier: Apache-2.0
// A snippet of the specification: it prints as it was written, in three forms, and canonicalizes.
// RUN: tessera-opt %s >%t.1 && FileCheck %s <%t.1
// RUN: tessera-opt %t.1 | diff %t.1 -
// RUN: tessera-opt --mlir-print-op-generic %s | tessera-opt | diff %t.1 -
// RUN: tessera-opt -canonicalize %s | FileCheck %s --check-prefix=CANON
// CHECK: tessera.schedule.recompute_hint {policy = "full"}
// CANON: tessera_sr.recompute_hint {policy = "full"}
module {
func.func @fixture() {
tessera.schedule.recompute_hint { policy = "full" }

return
}
}
