// SPDX-License-Identifier: Apache-2.0
// Programs whose ranks run the same collectives. What is refused: rejected/0254*.
// RUN: tessera-opt -inline -tessera-order-collectives %s | FileCheck %s

func.func private @share(%x: tensor<f32>) -> tensor<f32> {
  %0 = tessera_sr.all_reduce %x {axis = "data"} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// The condition is all-reduced.
// CHECK-LABEL: func.func @reduced(
func.func @reduced(%x: tensor<f32> {tessera.name = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %limit = tessera.param "limit" init = #tessera.constant<0.5> : tensor<f32>
  %0 = func.call @share(%x) : (tensor<f32>) -> tensor<f32>
  %1 = tessera.compare gt %0, %limit : tensor<f32> -> tensor<i1>
  // CHECK: tessera.if
  %2 = tessera.if %1 {
    %3 = func.call @share(%x) : (tensor<f32>) -> tensor<f32>
    tessera.yield %3 : tensor<f32>
  } else {
    tessera.yield %x : tensor<f32>
  } : tensor<i1> -> tensor<f32>
  return %2 : tensor<f32>
}

// Both branches run the same collectives.
// CHECK-LABEL: func.func @same(
func.func @same(%x: tensor<f32> {tessera.name = "x"}, %c: tensor<i1> {tessera.name = "c"}) -> (tensor<f32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %0 = tessera.if %c {
    %1 = func.call @share(%x) : (tensor<f32>) -> tensor<f32>
    %2 = tessera.neg %1 : tensor<f32>
    tessera.yield %2 : tensor<f32>
  } else {
    %1 = tessera.exp %x : tensor<f32>
    %2 = func.call @share(%1) : (tensor<f32>) -> tensor<f32>
    tessera.yield %2 : tensor<f32>
  } : tensor<i1> -> tensor<f32>
  return %0 : tensor<f32>
}

// The number of iterations is equal on all ranks, though another carried value differs.
// CHECK-LABEL: func.func @loop(
func.func @loop(%x: tensor<f32> {tessera.name = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %first = tessera.step : tensor<i64>
  %0:2 = tessera.while %first, %x {
  ^bb0(%i: tensor<i64>, %a: tensor<f32>):
    %count = tessera.constant dense<3> : tensor<i64>
    %1 = tessera.compare lt %i, %count : tensor<i64> -> tensor<i1>
    tessera.yield %1 : tensor<i1>
  } do {
  ^bb0(%i: tensor<i64>, %a: tensor<f32>):
    %one = tessera.constant dense<1> : tensor<i64>
    %1 = tessera.add %i, %one : tensor<i64>
    %2 = func.call @share(%a) : (tensor<f32>) -> tensor<f32>
    %3 = tessera.add %2, %x : tensor<f32>
    tessera.yield %1, %3 : tensor<i64>, tensor<f32>
  } {limit = 5 : i64} : (tensor<i64>, tensor<f32>) -> (tensor<i64>, tensor<f32>)
  return %0#1 : tensor<f32>
}

// A scan has the same length on all ranks; a branch without collectives needs no proof.
// CHECK-LABEL: func.func @scan(
func.func @scan(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %zero = tessera.constant dense<0.0> : tensor<f32>
  %0:2 = tessera.scan %zero, %x {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = func.call @share(%b) : (tensor<f32>) -> tensor<f32>
    %2 = tessera.compare gt %b, %a : tensor<f32> -> tensor<i1>
    %3 = tessera.if %2 {
      tessera.yield %1 : tensor<f32>
    } else {
      tessera.yield %b : tensor<f32>
    } : tensor<i1> -> tensor<f32>
    tessera.yield %3, %3 : tensor<f32>, tensor<f32>
  } {carried = 1 : i64} : (tensor<f32>, tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>)
  return %0#1 : tensor<4xf32>
}
