// SPDX-License-Identifier: Apache-2.0
// What is no tensor of a known shape has no virtual rank's part.
// RUN: not tessera-opt -tessera-virtual-ranks -split-input-file --no-output %s 2>&1 | FileCheck %s

module attributes {tessera.virtual_ranks = 3 : i64} {
  func.func @rows(%x: tensor<?x4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
    // CHECK: [[@LINE+1]]:10: error: [TSR-0309] tessera.sum: cannot be run on several virtual ranks
    %y = tessera.sum %x {axes = [0, 1]} : tensor<?x4xf32> -> tensor<f32>
    return %y : tensor<f32>
  }
}

// -----
module attributes {tessera.virtual_ranks = 2 : i64} {
  func.func @token(%x: tensor<4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
    %y = tessera.sum %x {axes = [0]} : tensor<4xf32> -> tensor<f32>
    // CHECK: [[@LINE+1]]:10: error: [TSR-0309] builtin.unrealized_conversion_cast: cannot be run on several virtual ranks
    %t = builtin.unrealized_conversion_cast %y : tensor<f32> to !async.token
    async.await %t : !async.token
    return %y : tensor<f32>
  }
}

// -----
module attributes {tessera.virtual_ranks = 2 : i64} {
  func.func @shape(%x: tensor<4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
    // CHECK: [[@LINE+1]]:10: error: [TSR-0309] arith.constant: cannot be run on several virtual ranks
    %i = arith.constant 1 : index
    %y = tessera.sum %x {axes = [0]} : tensor<4xf32> -> tensor<f32>
    return %y : tensor<f32>
  }
}
