// SPDX-License-Identifier: Apache-2.0
// A changed dump assigns to a tensor that no group reads: an error of the program (9), not an internal one.
// RUN: sh -c 'tessera-aot build --from=autodiff %s -o %t --target cpu:x86-64-v3 2>%t.txt; test $? = 9' && FileCheck %s --input-file=%t.txt
// CHECK: error: @train uses tensor 'w', which is not in the config
module @m {
  func.func @train(%x: tensor<8x4xf32> {tessera.name = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<8x4xf32>
    %y = tessera.neg %x : tensor<8x4xf32>
    tessera.assign %y to "w" : tensor<8x4xf32>
    %r = tessera.sum %x {axes = [0, 1]} : tensor<8x4xf32> -> tensor<f32>
    return %r : tensor<f32>
  }
  tessera_target.document "graph" "module {}"
}
