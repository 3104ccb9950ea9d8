// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt %s > %t.text
// RUN: tessera-opt --emit-bytecode %s | tessera-opt > %t.bytecode
// RUN: tessera-opt --mlir-print-op-generic %s | tessera-opt > %t.generic
// RUN: diff %t.text %t.bytecode
// RUN: diff %t.text %t.generic
// RUN: tessera-opt --mlir-print-debuginfo %s | FileCheck %s
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: tessera.exp %{{.*}} loc(#[[PLACE:.*]])
  // CHECK: #[[PLACE]] = loc("forms.mlir":[[@LINE+1]]:8)
  %0 = tessera.exp %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
