// SPDX-License-Identifier: Apache-2.0
// Groups of several segments that are refused.
// RUN: not tessera-opt -split-input-file --no-output %s 2>&1 | FileCheck %s

// CHECK: [[@LINE+1]]:1: error: [TSR-0413] tsched.func: tile.segments is not [segments, inputs of one] for its arguments
tsched.func @count(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {kind = "batch", tile.segments = [2, 2]} {
  %0 = tessera.exp %a : tensor<4xf32>
  %1 = tessera.exp %b : tensor<4xf32>
  tsched.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----
tsched.func @two(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {kind = "batch", tile.segments = [2, 1]} {
  %0 = tessera.exp %a : tensor<4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0410] tessera.add: reads values of two segments
  %1 = tessera.add %0, %b : tensor<4xf32>
  tsched.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----
tsched.func @other(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {kind = "batch", tile.segments = [2, 1]} {
  %0 = tessera.exp %a : tensor<4x4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0410] tessera.matmul: is not allowed in a group of segments
  %1 = tessera.matmul %b, %b : tensor<4x4xf32>
  tsched.return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----
tsched.func @exchanged(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {kind = "batch", tile.segments = [2, 1]} {
  %0 = tessera.exp %a : tensor<4xf32>
  %1 = tessera.exp %b : tensor<4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0411] tsched.return: returns a value of another segment
  tsched.return %1, %0 : tensor<4xf32>, tensor<4xf32>
}

// -----
tsched.func @shape(%a: tensor<4xf32>, %b: tensor<2x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
    attributes {kind = "batch", tile.segments = [2, 1]} {
  %0 = tessera.exp %a : tensor<4xf32>
  %1 = tessera.neg %a : tensor<4xf32>
  %2 = tessera.exp %b : tensor<2x4xf32>
  %3 = tessera.sum %b {axes = [0]} : tensor<2x4xf32> -> tensor<4xf32>
  // CHECK: [[@LINE-1]]:{{.*}} error: [TSR-0410] tessera.sum: is not allowed in a group of segments
  tsched.return %0, %1, %2, %2 : tensor<4xf32>, tensor<4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}

// -----
tsched.func @input(%a: tensor<4xf32>) -> tensor<4xf32> attributes {kind = "batch", tile.segments = [1, 1]} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0411] tsched.return: returns an input, or another type than the function declares
  tsched.return %a : tensor<4xf32>
}

// -----
tsched.func @outputs(%a: tensor<4xf32>, %b: tensor<f32>) -> (tensor<4xf32>, tensor<f32>) attributes {kind = "batch", tile.segments = [1, 1]} {
  %0 = tessera.exp %a : tensor<4xf32>
  %1 = tessera.exp %b : tensor<f32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0411] tsched.return: returns a value of another segment
  tsched.return %0, %1 : tensor<4xf32>, tensor<f32>
}
