// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tsched-fuse -split-input-file %s | FileCheck %s

// %e and %y have one shape and %y reads %e, but the matmul stands between: one group of both would
// have to run before and after it.
// CHECK-LABEL: @through_matmul
// CHECK-NEXT: %[[E:.*]] = tsched.call @k0_exp(%arg0)
// CHECK-NEXT: %[[Y:.*]] = tsched.call @k1_matmul_add(%[[E]], %arg1)
// CHECK-NEXT: return %[[Y]]
func.func @through_matmul(%x: tensor<16x16xf32> {tessera.name = "x"}, %w: tensor<16x16xf32> {tessera.name = "w"})
    -> (tensor<16x16xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %e = tessera.exp %x : tensor<16x16xf32>
  %m = tessera.matmul %e, %w : tensor<16x16xf32>
  %y = tessera.add %m, %e : tensor<16x16xf32>
  return %y : tensor<16x16xf32>
}

// -----

// Two chains that cross: a -> matmul -> b and c -> matmul -> d, where b reads c and d reads a.
// Whatever is merged, every call reads only what is there (the verifier checks it).
// CHECK-LABEL: @crossed
// CHECK-COUNT-3: tsched.call
// CHECK: return
func.func @crossed(%x: tensor<16x16xf32> {tessera.name = "x"}, %w: tensor<16x16xf32> {tessera.name = "w"})
    -> (tensor<16x16xf32> {tessera.name = "b"}, tensor<16x16xf32> {tessera.name = "d"}) attributes {tessera.entry = "infer"} {
  %a = tessera.exp %x : tensor<16x16xf32>
  %c = tessera.tanh %w : tensor<16x16xf32>
  %m = tessera.matmul %a, %w : tensor<16x16xf32>
  %n = tessera.matmul %c, %x : tensor<16x16xf32>
  %b = tessera.add %m, %c : tensor<16x16xf32>
  %d = tessera.add %n, %a : tensor<16x16xf32>
  return %b, %d : tensor<16x16xf32>, tensor<16x16xf32>
}
