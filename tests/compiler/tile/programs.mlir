// SPDX-License-Identifier: Apache-2.0
// Programs of a product: some for each of several threads where it is small, and where one row reads a large B, whose rows a thread reads in one run.
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v4 --dump tile | FileCheck %s

// CHECK-LABEL: tile.func @k0_matmul({{.*}} grid 4
// CHECK: tile.program_id
// CHECK: tile.program_end
// CHECK-LABEL: tile.func @k1_matmul({{.*}} grid 4
// CHECK-NOT: tile.program_end
func.func @products(%x: tensor<1x700xf32> {tessera.name = "x"}, %w: tensor<700x800xf32> {tessera.name = "w"},
                    %a: tensor<80x80xf32> {tessera.name = "a"}, %b: tensor<80x80xf32> {tessera.name = "b"})
    -> (tensor<1x800xf32> {tessera.name = "y"}, tensor<80x80xf32> {tessera.name = "c"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %x, %w : (tensor<1x700xf32>, tensor<700x800xf32>) -> tensor<1x800xf32>
  %c = tessera.matmul %a, %b : tensor<80x80xf32>
  return %y, %c : tensor<1x800xf32>, tensor<80x80xf32>
}
