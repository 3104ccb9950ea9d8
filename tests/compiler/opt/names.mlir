// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -pm-v1_1-verify --no-output %s
// RUN: tessera-opt -pm-v1_1-legalize %s | FileCheck %s
// RUN: tessera-opt --tessera-graph %s | FileCheck %s
// RUN: tessera-opt '-func.func(canonicalize{max-iterations=2},cse)' %s | FileCheck %s --check-prefix=ANY
// RUN: not tessera-opt -tessera-verfy %s 2>&1 | FileCheck %s --check-prefix=WRONG
// WRONG: tessera-opt: pass 'tessera-verfy': {{.*}}; did you mean 'tessera-verify'?
// RUN: tessera-opt --help | FileCheck %s --check-prefix=HELP
// HELP: -tessera-verify
// HELP: -tsched-fuse
// HELP: sequences of passes:
// HELP: -pm-v1_1-verify
// HELP: -pm-v1_1-legalize
// HELP: passes of MLIR
// HELP: --canonicalize
// HELP: --cse

// CHECK-NOT: @unused
// CHECK: func.func @f
// ANY: func.func private @unused
func.func private @unused(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @f(%a: tensor<4xf32> {tessera.name = "a"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.exp %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
