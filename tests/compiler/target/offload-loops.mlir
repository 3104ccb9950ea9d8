// SPDX-License-Identifier: Apache-2.0
// An entry with loops cannot send away what waits; the words say so.
// RUN: not tessera-aot build %s -o %t.tsb --target cuda:sm_90a --workspace-max 1 2>&1 | FileCheck %s
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_90a --workspace-max 64 --dump target | FileCheck %s --check-prefix=FITS
// CHECK: @sum needs [[BYTES:[0-9]+]] bytes of workspace, [[BYTES]] too where values wait, for it has loops; at most 1048576 were asked for
// FITS: tessera_target.func @sum
// FITS-NOT: tessera_target.offload
func.func @sum(%s: tensor<1024x512xf32> {tessera.name = "s"}, %x: tensor<200x1024x512xf32> {tessera.name = "x"})
    -> (tensor<1024x512xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %w = tessera.softmax_safe %s {axis = 1 : i64} : tensor<1024x512xf32>
  %0 = tessera.scan %w, %x {
  ^bb0(%carry: tensor<1024x512xf32>, %row: tensor<1024x512xf32>):
    %1 = tessera.mul %carry, %row : tensor<1024x512xf32>, tensor<1024x512xf32> -> tensor<1024x512xf32>
    %2 = tessera.softmax_safe %1 {axis = 1 : i64} : tensor<1024x512xf32>
    %3 = tessera.add %2, %w : tensor<1024x512xf32>, tensor<1024x512xf32> -> tensor<1024x512xf32>
    tessera.yield %3 : tensor<1024x512xf32>
  } {carried = 1 : i64} : tensor<1024x512xf32>, tensor<200x1024x512xf32> -> tensor<1024x512xf32>
  return %0 : tensor<1024x512xf32>
}
