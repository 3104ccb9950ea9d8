// SPDX-License-Identifier: Apache-2.0
// Sizes of products on matrix units: those of the model, those of a schedule, and the rules that others break.
// RUN: tessera-aot build --numerics=native --target=cuda:sm_90a,cuda:sm_80 --until=tile --dump=plan,tile %s | FileCheck %s
// RUN: echo 'tsched.tile kernel @k0_matmul chosen = [128, 128, 0, 4, 8, 1, 1] {target = "cuda:sm_90a"}' >%t.mlir
// RUN: tessera-aot build --numerics=native --target=cuda:sm_90a,cuda:sm_80 --schedule=%t.mlir --until=tile --dump=plan,tile %s | FileCheck --check-prefix=USER %s
// RUN: echo 'tsched.tile kernel @k0_matmul chosen = [128, 256, 0, 9]' >%t.mlir
// RUN: not tessera-aot build --numerics=native --target=cuda:sm_90a --schedule=%t.mlir --until=plan %s 2>&1 | FileCheck --check-prefix=SHARED %s
// RUN: echo 'tsched.tile kernel @k0_matmul chosen = [256, 256]' >%t.mlir
// RUN: not tessera-aot build --numerics=native --target=cuda:sm_90a --schedule=%t.mlir --until=plan %s 2>&1 | FileCheck --check-prefix=REGISTERS %s
// RUN: echo 'tsched.tile kernel @k0_matmul chosen = [128, 128, 32]' >%t.mlir
// RUN: not tessera-aot build --numerics=native --target=cuda:sm_90a --schedule=%t.mlir --until=plan %s 2>&1 | FileCheck --check-prefix=TABLE %s

// The tile of each target is the one that stage plan chose.
// CHECK: // ---- plan cuda:sm_90a
// CHECK: tsched.tile kernel @k0_matmul candidates = {{.*}} chosen = [64, 128, 64, 8, 4, 2, 1, 1, 1, 0, 0]
// CHECK-SAME: kind = "matrix_product"
// CHECK-SAME: source = "model"
// CHECK: // ---- plan cuda:sm_80
// CHECK: chosen = [128, 128, 64, 5, 8, 1, 1, 1, 1, 0, 0]
// CHECK: // ---- tile cuda:sm_90a
// CHECK: tile.func @k0_matmul{{.*}} warps 4 {{.*}}tile = [64, 128, 64, 8, 4, 2, 1, 1, 1, 0]
// CHECK: // ---- tile cuda:sm_80
// CHECK: tile.func @k0_matmul{{.*}} warps 8 {{.*}}tile = [128, 128, 64, 5, 8, 1, 1, 1, 1, 0]

// A schedule for one target leaves the others to the model.
// USER: // ---- plan cuda:sm_90a
// USER: chosen = [128, 128, 64, 4, 8, 1, 1, {{[12]}}, {{[12]}}, 0, 0] {{.*}} source = "user"
// USER: // ---- plan cuda:sm_80
// USER: source = "model"
// USER: tile.func @k0_matmul{{.*}} warps 8 {{.*}}tile = [128, 128, 64, 4, 8, 1, 1,

// SHARED: error: [TSR-0431] tsched.tile: @k0_matmul for cuda:sm_90a: stages is 9; expected 3 to 4: the shared memory of a block
// REGISTERS: error: [TSR-0431] tsched.tile: @k0_matmul for cuda:sm_90a: rows and columns give a thread 256 sums; expected at most 128: its registers
// TABLE: error: [TSR-0431] tsched.tile: @k0_matmul for cuda:sm_90a: no kernel has a tile of 128 rows, 128 columns, depth 32
func.func @f(%x: tensor<1024x4096xbf16> {tessera.name = "x"}, %y: tensor<4096x1024xbf16> {tessera.name = "y"})
    -> (tensor<1024x1024xbf16> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.matmul %x, %y : tensor<1024x4096xbf16>, tensor<4096x1024xbf16> -> tensor<1024x1024xbf16>
  return %0 : tensor<1024x1024xbf16>
}
