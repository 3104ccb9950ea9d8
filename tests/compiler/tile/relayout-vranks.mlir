// SPDX-License-Identifier: Apache-2.0
// In entries with virtual ranks, too, factors are copied with a pitch, and results that only products read get one.
// RUN: rm -rf %t.levels && tessera-aot build --from=autodiff %s --until target --target cuda:sm_90a --numerics native --dump tile,target --dump-dir %t.levels
// RUN: FileCheck %s --input-file=%t.levels/tile.sm_90a.mlir
// RUN: FileCheck %s --check-prefix=HOST --input-file=%t.levels/target.sm_90a.mlir
// CHECK-LABEL: func.func @train
// CHECK: %[[X:.*]] = tsched.call @k0_matmul_relayout(
// CHECK: %[[Y:.*]] = tsched.call @k0_matmul(%[[X]],
// CHECK: tsched.call @k1_matmul(%[[Y]],
// HOST: tessera_target.func @train
// HOST-DAG: tessera_target.alloc offset {{.*}} : memref<512x1001xbf16, strided<[1024, 1]>>
// HOST-DAG: tessera_target.alloc offset {{.*}} : memref<512x776xbf16, strided<[832, 1]>>
module @m attributes {tessera.virtual_ranks = 2 : i64} {
  func.func @train(%x: tensor<1024x1001xbf16> {tessera.data = "x"}) -> (tensor<512xf32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %0 = tessera_sr.vrank_rows %x : tensor<1024x1001xbf16> -> tensor<512x1001xbf16>
    %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<1001x776xbf16>
    %v = tessera.param "v" init = #tessera.constant<0.0> : tensor<776x512xbf16>
    %1 = tessera.matmul %0, %w : tensor<512x1001xbf16>, tensor<1001x776xbf16> -> tensor<512x776xbf16>
    %2 = tessera.matmul %1, %v : tensor<512x776xbf16>, tensor<776x512xbf16> -> tensor<512x512xbf16>
    %3 = tessera.cast %2 : tensor<512x512xbf16> -> tensor<512x512xf32>
    %4 = tessera.sum %3 {axes = [0]} : tensor<512x512xf32> -> tensor<512xf32>
    %5 = tessera_sr.vrank_sum %4 : tensor<512xf32> -> tensor<512xf32>
    return %5 : tensor<512xf32>
  }
}
