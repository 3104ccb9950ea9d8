// SPDX-License-Identifier: Apache-2.0
// The alias is its passes one after another; each of them acts where the program asks for it.
// RUN: tessera-opt -tessera-handlers -inline -tessera-drop-other-functions -tessera-inline-regions -tessera-autodiff %s >%t.1
// RUN: tessera-opt -tessera-sr-pipeline %t.1 >%t.2
// RUN: tessera-opt -canonicalize -cse -tessera-optimizer-shard -tessera-insert-recompute -tessera-resilience-restart -tessera-export-deployment-manifest %t.1 | diff %t.2 -
// RUN: FileCheck %s <%t.2
// Where nothing is asked for, it only cleans up; run again it changes nothing.
// RUN: tessera-opt -inline -tessera-drop-other-functions -tessera-autodiff -canonicalize -cse %examples/digits/digits.mlir >%t.3
// RUN: tessera-opt -tessera-sr-pipeline %t.3 | diff %t.3 -
// RUN: tessera-opt -inline -tessera-drop-other-functions -tessera-infer-shapes -tessera-autodiff -canonicalize -cse %examples/convnet/convnet.mlir >%t.4
// RUN: tessera-opt -tessera-sr-pipeline %t.4 | diff %t.4 -
// All of them together change no bit of a step.
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v3 --virtual-ranks 1
// RUN: tessera-aot build %S/inputs/plain-step.mlir -o %t.plain.tsb --target cpu:x86-64-v3
// RUN: tessera-run %t.plain.tsb --entry data --output x=%t.x.npy
// RUN: tessera-run %t.tsb --data x=%t.x.npy --steps 5 --quiet >%t.5
// RUN: tessera-run %t.plain.tsb --entry train --data x=%t.x.npy --steps 5 --quiet | diff %t.5 -

// CHECK: module attributes {{.*}}tessera.mesh = {data = 2 : i64}
module attributes {tessera.mesh = {data = 2}} {
  // CHECK-LABEL: func.func @train
  // CHECK-SAME: tessera_sr.sharded = [2,
  func.func @train(%x: tensor<8x16xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<16x16xf32>
    // CHECK: tessera_sr.enter "stage"
    // CHECK: tessera_sr.leave "stage"
    %t, %h = tessera_sr.resilience_region {
      %0 = tessera.matmul %x, %w : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
      tessera.yield %0 : tensor<8x16xf32>
    } {mode = "replay", name = "stage"} : !tessera_sr.token, tensor<8x16xf32>
    // CHECK: tessera_sr.barrier
    %y = tessera_sr.checkpoint {
      %1 = tessera.exp %h : tensor<8x16xf32>
      %2 = tessera.tanh %1 : tensor<8x16xf32>
      %3 = tessera.exp %2 : tensor<8x16xf32>
      tessera.yield %3 : tensor<8x16xf32>
    } {policy = "full"} : tensor<8x16xf32>
    %loss = tessera.mean %y {axes = [0, 1]} : tensor<8x16xf32> -> tensor<f32>
    // CHECK: tessera_sr.reduce_scatter
    // CHECK: tessera_sr.all_gather
    tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>, tessera.opt.shard = #tessera.opt.shard<axis = "data">, tessera.opt.partition = #tessera.opt.partition<"zero2">} : tensor<f32>
    return %loss : tensor<f32>
  }
}
