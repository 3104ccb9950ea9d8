// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-mark-infinite -split-input-file %s | FileCheck %s

// An infinite constant reaches a result through ops, but not through bounded ones or as a condition.
// CHECK-LABEL: func.func @flow
// CHECK-SAME: -> (tensor<3xf32> {tessera.may_be_infinite, tessera.name = "sum"},
// CHECK-SAME: tensor<3xf32> {tessera.name = "soft"},
// CHECK-SAME: tensor<3xf32> {tessera.name = "chosen"},
// CHECK-SAME: tensor<3xf32> {tessera.name = "plain"},
// CHECK-SAME: tensor<3xi32> {tessera.name = "whole"})
func.func @flow(%x: tensor<3xf32> {tessera.name = "x"}) -> (tensor<3xf32> {tessera.name = "sum"}, tensor<3xf32> {tessera.name = "soft"}, tensor<3xf32> {tessera.name = "chosen"}, tensor<3xf32> {tessera.name = "plain"}, tensor<3xi32> {tessera.name = "whole"}) attributes {tessera.entry = "infer"} {
  %mask = tessera.constant dense<[0.0, 0xFF800000, 0.0]> : tensor<3xf32>
  %sum = tessera.add %x, %mask : tensor<3xf32>
  %soft = tessera.softmax_safe %sum {axis = 0} : tensor<3xf32>
  %c = tessera.compare lt %x, %sum : tensor<3xf32> -> tensor<3xi1>
  %chosen = tessera.where %c, %x, %soft : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %plain = tessera.exp %x : tensor<3xf32>
  %whole = tessera.cast %sum : tensor<3xf32> -> tensor<3xi32>
  return %sum, %soft, %chosen, %plain, %whole : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xi32>
}

// -----

// A pad with it, and what a loop does with a constant of its own. What a program says stays.
// CHECK-LABEL: func.func @others
// CHECK-SAME: -> (tensor<4xf32> {tessera.may_be_infinite, tessera.name = "padded"},
// CHECK-SAME: tensor<3xf32> {tessera.may_be_infinite, tessera.name = "looped"},
// CHECK-SAME: tensor<3xf32> {tessera.may_be_infinite, tessera.name = "said"})
func.func @others(%x: tensor<3xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "padded"}, tensor<3xf32> {tessera.name = "looped"}, tensor<3xf32> {tessera.may_be_infinite, tessera.name = "said"}) attributes {tessera.entry = "infer"} {
  %padded = tessera.pad %x {low = [0], high = [1], value = 0xFFF0000000000000 : f64} : tensor<3xf32> -> tensor<4xf32>
  %looped = tessera.scan %x {
  ^bb0(%a: tensor<3xf32>):
    %top = tessera.constant dense<0x7F800000> : tensor<3xf32>
    %b = tessera.max %a, %top : tensor<3xf32>
    tessera.yield %b : tensor<3xf32>
  } {carried = 1 : i64, length = 3 : i64} : tensor<3xf32> -> tensor<3xf32>
  %said = tessera.log %x : tensor<3xf32>
  return %padded, %looped, %said : tensor<4xf32>, tensor<3xf32>, tensor<3xf32>
}

// -----

// The outputs of training are checked as they were.
// CHECK-LABEL: func.func @train
// CHECK-SAME: -> (tensor<f32> {tessera.name = "loss"})
func.func @train() -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %c = tessera.constant dense<0xFF800000> : tensor<f32>
  return %c : tensor<f32>
}
