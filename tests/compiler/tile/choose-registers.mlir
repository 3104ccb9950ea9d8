// SPDX-License-Identifier: Apache-2.0
// A kernel that has one tile and spills is told the fewest registers with which it does not; where it always spills it stays as it was, and inspect tells.
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_90a --ptxas %S/inputs/ptxas-tight --dump asm | FileCheck %s
// RUN: tessera-aot inspect --kernels %t.tsb | FileCheck %s --check-prefix=INSPECT
// RUN: tessera-aot inspect --json %t.tsb | FileCheck %s --check-prefix=JSON

// CHECK: .entry k0_transpose(
// CHECK: .maxntid 128, 1, 1
// CHECK-NEXT: .maxnreg 128
// CHECK: .entry k1_cumsum(
// CHECK-NOT: .maxnreg
// CHECK: .entry k2_sum(
// CHECK-NOT: .maxnreg
// INSPECT: kernel {{ *}}threads registers   shared scratch    spilt warps
// INSPECT-NEXT: k0_transpose {{ *}}128       128 {{ *[0-9]+ +[0-9]+}}        0    16
// INSPECT-NEXT: k1_cumsum {{ *}}128        40 {{ *[0-9]+ +[0-9]+}}        8    48
// INSPECT-NEXT: k2_sum {{ *[0-9]+}}        40 {{ *[0-9]+ +[0-9]+}}        0
// JSON-COUNT-3: "spillBytes":{{[08]}},"residentWarps":{{[0-9]+}}}
func.func @move(%x: tensor<64x96xf32> {tessera.name = "x"})
    -> (tensor<96x64xf32> {tessera.name = "a"}, tensor<64x96xf32> {tessera.name = "b"}, tensor<64xf32> {tessera.name = "c"})
    attributes {tessera.entry = "infer"} {
  %a = tessera.transpose %x {permutation = [1, 0]} : tensor<64x96xf32> -> tensor<96x64xf32>
  %b = tessera.cumsum %x {axis = 1} : tensor<64x96xf32>
  %c = tessera.sum %x {axes = [1]} : tensor<64x96xf32> -> tensor<64xf32>
  return %a, %b, %c : tensor<96x64xf32>, tensor<64x96xf32>, tensor<64xf32>
}
