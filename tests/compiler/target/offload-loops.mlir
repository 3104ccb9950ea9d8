// SPDX-License-Identifier: Apache-2.0
// An entry with loops cannot offload values that wait; its error says so.
// RUN: not tessera-aot build %s -o %t.tsb --target cuda:sm_90a --workspace-max 1 2>&1 | FileCheck %s
// RUN: tessera-aot build %s --until target --target cuda:sm_90a --workspace-max 64 --dump target | FileCheck %s --check-prefix=FITS
// CHECK: @sum needs [[BYTES:[0-9]+]] bytes of workspace, [[BYTES]] also with offloaded values, because it has loops; at most 1048576 are allowed
// FITS: tessera_target.func @sum
// FITS-NOT: tessera_target.offload

// A limit that is none.
// RUN: rm -rf %t.levels && tessera-aot build %s --until tile --target cuda:sm_90a --workspace-max 64 --dump tile --dump-dir %t.levels
// RUN: sed 's/tessera.workspace_max = 67108864 : i64/tessera.workspace_max = -1 : i64/' %t.levels/tile.sm_90a.mlir > %t.less.mlir
// RUN: sed 's/tessera.workspace_max = 67108864 : i64/tessera.workspace_max = unit/' %t.levels/tile.sm_90a.mlir > %t.text.mlir
// RUN: not tessera-aot build %t.less.mlir --from tile -o %t.tsb 2>&1 | FileCheck %s --check-prefix=LESS
// RUN: not tessera-aot build %t.text.mlir --from tile -o %t.tsb 2>&1 | FileCheck %s --check-prefix=TEXT
// LESS: 'tessera.workspace_max' of the module is -1; expected a number of bytes, at least 1
// TEXT: 'tessera.workspace_max' of the module is not an i64; expected a number of bytes
func.func @sum(%s: tensor<1024x512xf32> {tessera.name = "s"}, %x: tensor<200x1024x512xf32> {tessera.name = "x"})
    -> (tensor<1024x512xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %w = tessera.softmax_safe %s {axis = 1 : i64} : tensor<1024x512xf32>
  %0 = tessera.scan %w, %x {
  ^bb0(%carry: tensor<1024x512xf32>, %row: tensor<1024x512xf32>):
    %1 = tessera.mul %carry, %row : tensor<1024x512xf32>
    %2 = tessera.softmax_safe %1 {axis = 1 : i64} : tensor<1024x512xf32>
    %3 = tessera.add %2, %w : tensor<1024x512xf32>
    tessera.yield %3 : tensor<1024x512xf32>
  } {carried = 1 : i64} : (tensor<1024x512xf32>, tensor<200x1024x512xf32>) -> tensor<1024x512xf32>
  return %0 : tensor<1024x512xf32>
}
