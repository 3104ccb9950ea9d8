// SPDX-License-Identifier: Apache-2.0
// Which loop a call is in is computed again, whatever a module says; and a loop's sum is no view.
// RUN: tessera-aot build --from=autodiff %s -o %t.tsb --target cpu:x86-64-v3 --dump tile >%t.mlir
// RUN: sed 's/tsched.call @k0_sum(%0)/& {tessera_target.loop = 3 : i64}/' %t.mlir >%t.marked.mlir
// RUN: grep 'tessera_target.loop = 3' %t.marked.mlir
// RUN: tessera-aot build --from=tile %t.marked.mlir -o %t.marked.tsb --dump target | FileCheck %s
// RUN: sed 's/tsched.call @k2_reshape(%2) : (tensor<4xf32>)/tessera.reshape %2 : tensor<4xf32>/' %t.mlir >%t.view.mlir
// RUN: grep 'tessera.reshape %2' %t.view.mlir
// RUN: not tessera-aot build --from=tile %t.view.mlir -o %t.view.tsb 2>&1 | FileCheck %s --check-prefix=VIEW
// CHECK: tessera_target.each_vrank 2
// CHECK-NEXT: tessera_target.launch @k0_sum
// CHECK-NEXT: tessera_target.vrank_sum @k1_vrank_sum
// CHECK-NEXT: tessera_target.launch @k2_reshape
// VIEW: error: @train: a view of a value that no kernel computes, in an entry with virtual ranks; expected a kernel
module @m attributes {tessera.virtual_ranks = 2 : i64} {
  func.func @train(%x: tensor<8x4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %0 = tessera_sr.vrank_rows %x : tensor<8x4xf32> -> tensor<4x4xf32>
    %1 = tessera.sum %0 {axes = [0]} : tensor<4x4xf32> -> tensor<4xf32>
    %2 = tessera_sr.vrank_sum %1 : tensor<4xf32> -> tensor<4xf32>
    %3 = tessera.reshape %2 : tensor<4xf32> -> tensor<2x2xf32>
    %4 = tessera.neg %3 : tensor<2x2xf32>
    %5 = tessera.sum %4 {axes = [0, 1]} : tensor<2x2xf32> -> tensor<f32>
    return %5 : tensor<f32>
  }
}
