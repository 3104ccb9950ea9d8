// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-infer-shapes -cse --print-ir-after-all --no-output %s 2>&1 | FileCheck %s --check-prefix=ALL
// RUN: tessera-opt -tessera-infer-shapes -cse --print-ir-after-change --no-output %s 2>&1 | FileCheck %s --check-prefix=CHANGE
// ALL: IR Dump After
// ALL-SAME: tessera-infer-shapes
// ALL: func.func @f
// ALL: IR Dump After CSE
// ALL: func.func @f
// CHANGE-NOT: tessera-infer-shapes
// CHANGE: IR Dump After CSE
func.func @f(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tessera.exp %a : tensor<4xf32>
  %1 = tessera.exp %a : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
