// SPDX-License-Identifier: Apache-2.0
// What differs between virtual ranks is no result, and nothing reads all rows of a batch.
// RUN: not tessera-aot build --from=autodiff %s -o %t --target cpu:x86-64-v3 2>&1 | FileCheck %s
// RUN: sed 's/tessera.sum %0/tessera.sum %x/; s/tensor<4x4xf32> -> tensor<f32>/tensor<8x4xf32> -> tensor<f32>/' %s >%t.mlir && not tessera-aot build --from=autodiff %t.mlir -o %t --target cpu:x86-64-v3 2>&1 | FileCheck %s --check-prefix=ALL
// ALL: error: @train: tsched.call reads all of input 'x', whose rows are spread over virtual ranks; expected tessera_sr.vrank_rows
// CHECK: error: @train: func.return of a value that differs between virtual ranks
module @m attributes {tessera.virtual_ranks = 2 : i64} {
  func.func @train(%x: tensor<8x4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %0 = tessera_sr.vrank_rows %x : tensor<8x4xf32> -> tensor<4x4xf32>
    %1 = tessera.sum %0 {axes = [0, 1]} : tensor<4x4xf32> -> tensor<f32>
    return %1 : tensor<f32>
  }
}
