// SPDX-License-Identifier: Apache-2.0
// Parameters that ranks have parts of are gathered right before what reads them, for each virtual rank, into one place: forward, and
// again backward, but where no other was gathered since. Small ones are gathered once.
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v3 --dump program | FileCheck %s
// CHECK-DAG: %[[W0:[0-9]+]] = part of w0 : 2048xf32
// CHECK-DAG: %[[W1:[0-9]+]] = part of w1 : 2048xf32
// CHECK-DAG: %[[W2:[0-9]+]] = part of w2 : 2048xf32
// CHECK-DAG: %[[B:[0-9]+]] = part of b : 4xf32
// CHECK: %[[G0:[0-9]+]] = workspace +[[PLACE:[0-9]+]] : 64x64xf32
// CHECK: %[[G1:[0-9]+]] = workspace +[[PLACE]] : 64x64xf32
// CHECK: %[[G2:[0-9]+]] = workspace +[[PLACE]] : 64x64xf32
// CHECK: all_gather among virtual ranks: %{{[0-9]+}} <- %[[B]]
// CHECK: for each virtual rank: the next
// CHECK-NEXT: all_gather among virtual ranks: %[[G0]] <- %[[W0]]
// CHECK-NEXT: launch {{.*}} read {{.*}}%[[G0]]
// CHECK-NEXT: all_gather among virtual ranks: %[[G1]] <- %[[W1]]
// CHECK-NEXT: launch {{.*}} read {{.*}}%[[G1]]
// CHECK-NEXT: all_gather among virtual ranks: %[[G2]] <- %[[W2]]
// CHECK-NEXT: launch {{.*}} read {{.*}}%[[G2]]
// CHECK: launch {{.*}} read %{{[0-9]+}}, %[[G2]],
// CHECK-NEXT: all_gather among virtual ranks: %{{[0-9]+}} <- %[[W1]]
// CHECK-NOT: <- %[[W0]]
// CHECK: reduce_scatter among virtual ranks
module @m attributes {tessera.mesh = {data = 2}} {
  func.func @train(%x: tensor<4x64xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w0 = tessera.param "w0" init = #tessera.uniform<-0.5, 0.5> : tensor<64x64xf32>
    %w1 = tessera.param "w1" init = #tessera.uniform<-0.5, 0.5> : tensor<64x64xf32>
    %w2 = tessera.param "w2" init = #tessera.uniform<-0.5, 0.5> : tensor<64x64xf32>
    %b = tessera.param "b" init = #tessera.uniform<-0.5, 0.5> : tensor<8x1xf32>
    %0 = tessera.matmul %x, %w0 : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %1 = tessera.relu %0 : tensor<4x64xf32>
    %2 = tessera.matmul %1, %w1 : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %3 = tessera.relu %2 : tensor<4x64xf32>
    %4 = tessera.matmul %3, %w2 : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %5 = tessera.relu %4 : tensor<4x64xf32>
    %6 = tessera.reshape %5 : tensor<4x64xf32> -> tensor<4x8x8xf32>
    %7 = tessera.mul %6, %b : (tensor<4x8x8xf32>, tensor<8x1xf32>) -> tensor<4x8x8xf32>
    %8 = tessera.mul %7, %7 : tensor<4x8x8xf32>
    %loss = tessera.mean %8 {axes = [0, 1, 2]} : tensor<4x8x8xf32> -> tensor<f32>
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.01>,
        tessera.opt.shard = #tessera.opt.shard<axis = "data">, tessera.opt.partition = #tessera.opt.partition<"zero3">} : tensor<f32>
    return %loss : tensor<f32>
  }
}
