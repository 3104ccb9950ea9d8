// SPDX-License-Identifier: Apache-2.0
// Reshapes of what a virtual rank computes are views: of a buffer in the loop that computes it, and of the slots of all virtual ranks
// where a later loop reads it.
// RUN: tessera-aot build --from=autodiff %s --until target --target cpu:x86-64-v3 --dump target | FileCheck %s
// CHECK: %[[WHOLE:.*]] = tessera_target.vrank_alloc offset [[AT:[0-9]+]] : memref<4x6xf32>
// CHECK: %[[VIEW:.*]] = tessera_target.vrank_alloc offset [[AT]] : memref<8x3xf32>
// CHECK: tessera_target.each_vrank 3
// CHECK-NEXT: tessera_target.launch @k0_exp({{.*}}) writes(%[[WHOLE]])
// CHECK: tessera_target.vrank_sum
// CHECK-NEXT: tessera_target.launch @k3_reshape
// CHECK-NEXT: tessera_target.each_vrank 3
// CHECK-NEXT: tessera_target.launch @k4_matmul(%[[VIEW]],
module @m attributes {tessera.virtual_ranks = 2 : i64} {
  func.func @train(%x: tensor<8x6xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %0 = tessera_sr.vrank_rows %x : tensor<8x6xf32> -> tensor<4x6xf32>
    %1 = tessera.exp %0 : tensor<4x6xf32>
    %2 = tessera.sum %1 {axes = [0]} : tensor<4x6xf32> -> tensor<6xf32>
    %3 = tessera_sr.vrank_sum %2 : tensor<6xf32> -> tensor<6xf32>
    %4 = tessera.reshape %1 : tensor<4x6xf32> -> tensor<8x3xf32>
    %5 = tessera.reshape %3 : tensor<6xf32> -> tensor<3x2xf32>
    %6 = tessera.matmul %4, %5 : tensor<8x3xf32>, tensor<3x2xf32> -> tensor<8x2xf32>
    %7 = tessera.sum %6 {axes = [0, 1]} : tensor<8x2xf32> -> tensor<f32>
    %8 = tessera_sr.vrank_sum %7 : tensor<f32> -> tensor<f32>
    return %8 : tensor<f32>
  }
}
