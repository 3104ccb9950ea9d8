// SPDX-License-Identifier: Apache-2.0
// Sizes of kernels: those that a model chooses, those of a schedule, and those that are refused.
// RUN: tessera-aot build --from=schedule --target=cpu:x86-64-v3 --until=plan --dump=plan %s | FileCheck --check-prefix=MODEL %s
// RUN: echo 'tsched.tile chosen = [4, 16, 96, 2, 64] {name = "wide"}' >%t.mlir
// RUN: echo 'tsched.tile kernel @k0 {base = "wide", with = {block_rows = 48}, name = "low", target = "cpu:x86-64-v3"}' >>%t.mlir
// RUN: echo 'tsched.tile kernel @k1 {base = "low", with = {rows = 3}}' >>%t.mlir
// RUN: tessera-aot build --from=schedule --target=cpu:x86-64-v3 --schedule=%t.mlir --until=tile --dump=plan,tile %s | FileCheck --check-prefix=USER %s
// RUN: tessera-aot build --from=schedule --target=cpu:x86-64-v3 --schedule=%t.mlir --until=plan --dump=plan --dump-dir=%t.dir %s
// RUN: tessera-aot build --from=plan --until=tile --dump=tile %t.dir/plan.x86-64-v3.mlir | FileCheck --check-prefix=TILE %s
// RUN: tessera-aot build --from=schedule --target=cpu:x86-64-v3 --schedule=%t.mlir %s -o %t.tsb
// RUN: tessera-aot inspect --schedule %t.tsb | FileCheck --check-prefix=INSPECT %s
// RUN: echo 'func.func private @f()' >%t.wrong.mlir
// RUN: not tessera-aot build --from=schedule --target=cpu:x86-64-v3 --schedule=%t.wrong.mlir --until=plan %s 2>&1 | FileCheck --check-prefix=OTHER %s
// RUN: echo 'tsched.tile kernel @k0 chosen = [4, 16] tsched.tile kernel @k0 chosen = [4, 8]' >%t.wrong.mlir
// RUN: not tessera-aot build --from=schedule --target=cpu:x86-64-v3 --schedule=%t.wrong.mlir --until=plan %s 2>&1 | FileCheck --check-prefix=TWICE %s
// RUN: echo 'tsched.tile kernel @map chosen = [4]' >%t.wrong.mlir
// RUN: not tessera-aot build --from=schedule --target=cpu:x86-64-v3 --schedule=%t.wrong.mlir --until=plan %s 2>&1 | FileCheck --check-prefix=NONE %s
// RUN: echo 'tsched.tile kernel @k0 chosen = [4, 12]' >%t.wrong.mlir
// RUN: not tessera-aot build --from=schedule --target=cpu:x86-64-v3 --schedule=%t.wrong.mlir --until=plan %s 2>&1 | FileCheck --check-prefix=WIDTH %s
// RUN: echo 'tsched.tile kernel @k0 chosen = [4, 16, 96, 2, 60]' >%t.wrong.mlir
// RUN: not tessera-aot build --from=schedule --target=cpu:x86-64-v3 --schedule=%t.wrong.mlir --until=plan %s 2>&1 | FileCheck --check-prefix=LONG %s

// The chosen sizes are among the candidates; a kernel without sizes has no tsched.tile.
// MODEL: tsched.tile kernel @k0 candidates = {{\[\[}}6, 16, 96, 1, 32]
// MODEL-SAME: chosen = [6, 16, 96, 1, 32]
// MODEL-SAME: kind = "product", loops = ["rows", "width", "block_rows", "program_panels", "block_k"], signature = "{{[^"]+}}", source = "model"
// MODEL-NEXT: tsched.func @k0
// MODEL: tsched.tile kernel @k1
// MODEL-NOT: tsched.tile

// A name is a base of others; a size of 0 would be the model's.
// USER: tsched.tile kernel @k0 {{.*}} chosen = [4, 16, 48, 2, 64] {{.*}} source = "user"
// USER: tsched.tile kernel @k1 {{.*}} chosen = [3, 16, 48, 2, 64] {{.*}} source = "user"
// USER: tile.func @k0{{.*}} tile = [4, 16, 48, 2, 64]
// USER: tile.func @k1{{.*}} tile = [3, 16, 48, 2, 64]
// TILE: tile.func @k0{{.*}} tile = [4, 16, 48, 2, 64]
// TILE: tile.func @k1{{.*}} tile = [3, 16, 48, 2, 64]

// INSPECT: kernel sizes
// INSPECT-NEXT: cpu:x86-64-v3
// INSPECT-NEXT: k0 product: rows 4, width 16, block_rows 48, program_panels 2, block_k 64; source: user; {{[0-9]+}} candidates
// INSPECT-NEXT: [6 16 96 1 32]
// INSPECT-NEXT: k1 product: rows 3, width 16, block_rows 48, program_panels 2, block_k 64; source: user; {{[0-9]+}} candidates

// OTHER: 1:1: error: [TSR-0431] func.func: is in a schedule, which contains only tsched.tile
// TWICE: 1:41: error: [TSR-0431] tsched.tile: the schedule already has sizes for this kernel and target
// NONE: 1:1: error: [TSR-0431] tsched.tile: @map for cpu:x86-64-v3: it has no sizes that a schedule can choose
// WIDTH: 1:1: error: [TSR-0431] tsched.tile: @k0 for cpu:x86-64-v3: width is 12; expected whole vectors of 8 elements, at most 4
// LONG: 1:1: error: [TSR-0431] tsched.tile: @k0 for cpu:x86-64-v3: block_k is 60; expected 256 times or divided by a power of two, or all 4000 steps: the order of long sums is fixed
func.func @f(%x: tensor<96x4000xf32> {tessera.name = "x"}, %y: tensor<4000x64xf32> {tessera.name = "y"})
    -> (tensor<96x64xf32> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %0 = tsched.call @k0(%x, %y) : (tensor<96x4000xf32>, tensor<4000x64xf32>) -> tensor<96x64xf32>
  %1 = tsched.call @k1(%0) : (tensor<96x64xf32>) -> tensor<96x96xf32>
  %2 = tsched.call @k0(%x, %y) : (tensor<96x4000xf32>, tensor<4000x64xf32>) -> tensor<96x64xf32>
  %3 = tsched.call @map(%2) : (tensor<96x64xf32>) -> tensor<96x64xf32>
  return %3 : tensor<96x64xf32>
}
tsched.func @k0(%x: tensor<96x4000xf32>, %y: tensor<4000x64xf32>) -> tensor<96x64xf32> attributes {kind = "matmul"} {
  %0 = tessera.matmul %x, %y : tensor<96x4000xf32>, tensor<4000x64xf32> -> tensor<96x64xf32>
  tsched.return %0 : tensor<96x64xf32>
}
tsched.func @k1(%x: tensor<96x64xf32>) -> tensor<96x96xf32> attributes {kind = "matmul"} {
  %0 = tessera.matmul %x, %x {transpose_b = true} : tensor<96x64xf32>, tensor<96x64xf32> -> tensor<96x96xf32>
  tsched.return %0 : tensor<96x96xf32>
}
tsched.func @map(%x: tensor<96x64xf32>) -> tensor<96x64xf32> attributes {kind = "map"} {
  %0 = tessera.relu %x : tensor<96x64xf32>
  tsched.return %0 : tensor<96x64xf32>
}
