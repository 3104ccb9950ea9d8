// SPDX-License-Identifier: Apache-2.0
// What any stage wrote is checked by one name, and what is wrong there is found.
// RUN: rm -rf %t.d
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v3 --dump=all --dump-dir %t.d
// RUN: tessera-opt -pm-v1_1-verify --no-output %t.d/graph.mlir
// RUN: tessera-opt -pm-v1_1-verify --no-output %t.d/autodiff.mlir
// RUN: tessera-opt -pm-v1_1-verify --no-output %t.d/schedule.mlir
// RUN: tessera-opt -pm-v1_1-verify --no-output %t.d/tile.x86-64-v3.mlir
// RUN: tessera-opt -tessera-verify-level --no-output %t.d/target.x86-64-v3.mlir
// RUN: sed 's/tessera.name = "a"/tessera.nam = "a"/' %t.d/graph.mlir >%t.1
// RUN: not tessera-opt -pm-v1_1-verify --no-output %t.1 2>&1 | FileCheck %s --check-prefix=PORT
// RUN: sed 's/tessera.name = "a"/tessera.nam = "a"/' %t.d/schedule.mlir >%t.2
// RUN: not tessera-opt -pm-v1_1-verify --no-output %t.2 2>&1 | FileCheck %s --check-prefix=PORT
// RUN: sed 's/tessera.name = "a"/tessera.nam = "a"/' %t.d/tile.x86-64-v3.mlir >%t.3
// RUN: not tessera-opt -pm-v1_1-verify --no-output %t.3 2>&1 | FileCheck %s --check-prefix=PORT
// RUN: sed 's/workspace 0/workspace 8/' %t.d/target.x86-64-v3.mlir >%t.4
// RUN: not tessera-opt -pm-v1_1-verify --no-output %t.4 2>&1 | FileCheck %s --check-prefix=SPACE
// A text for later stages stands in no function.
// RUN: sed 's/^  return/  tessera_target.document "name" "x"\n  return/' %s >%t.5
// RUN: not tessera-opt -pm-v1_1-verify --no-output %t.5 2>&1 | FileCheck %s --check-prefix=INSIDE
// INSIDE: error: [TSR-0207] tessera_target.document: functions hold only tessera ops, func.call and func.return
// PORT: verify-levels.mlir:[[@LINE+2]]:1: error: [TSR-0228] func.func @f: argument 0 has no attribute 'tessera.nam'; did you mean 'tessera.name'?
// SPACE: verify-levels.mlir:[[@LINE+1]]:1: error: [TSR-0502] tessera_target.func: workspace is 8
func.func @f(%a: tensor<4xf32> {tessera.name = "a"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.exp %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
