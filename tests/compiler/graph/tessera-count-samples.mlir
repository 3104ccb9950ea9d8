// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-count-samples -split-input-file %s | FileCheck %s

// The iteration is carried behind the others; its elements follow those of the one before.
// CHECK-LABEL: func.func @scan
// CHECK: %[[ZERO:.*]] = tessera.constant dense<0> : tensor<i64>
// CHECK: %[[STEP:.*]] = tessera.step
// CHECK: %[[SEED:.*]] = tessera.seed
// CHECK: %[[R:.*]]:3 = tessera.scan %arg0, %[[ZERO]], %arg1
// CHECK: ^bb0(%[[C:.*]]: tensor<2xf32>, %[[I:.*]]: tensor<i64>, %[[ROW:.*]]: tensor<2xf32>):
// CHECK: %[[N:.*]] = tessera.constant dense<2> : tensor<i64>
// CHECK: %[[FIRST:.*]] = tessera.mul %[[I]], %[[N]]
// CHECK: %[[E:.*]] = tessera.add %{{.*}}, %[[FIRST]]
// CHECK: tessera.philox %[[E]], %[[STEP]], %[[SEED]] {stream = 3 : i64}
// CHECK: tessera.compare ge
// CHECK: %[[Y:.*]] = tessera.where
// CHECK: %[[NEXT:.*]] = tessera.add %[[I]], %{{.*}} : tensor<i64>
// CHECK: tessera.yield %{{.*}}, %[[NEXT]], %[[Y]]
// CHECK: {carried = 2 : i64, reverse}
// CHECK: return %[[R]]#0, %[[R]]#2
func.func @scan(%s: tensor<2xf32>, %x: tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2x2xf32>) attributes {tessera.entry = "train"} {
  %0:2 = tessera.scan %s, %x {
  ^bb0(%carry: tensor<2xf32>, %row: tensor<2xf32>):
    %1 = tessera.add %carry, %row : tensor<2xf32>
    %2 = tessera.dropout %1 {rate = 0.5, stream = 3 : i64} : tensor<2xf32>
    tessera.yield %1, %2 : tensor<2xf32>, tensor<2xf32>
  } {carried = 1 : i64, reverse} : (tensor<2xf32>, tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2x2xf32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2x2xf32>
}

// -----

// Within a loop the count continues with its iterations; both regions of a while have it.
// CHECK-LABEL: func.func @nest
// CHECK: tessera.scan
// CHECK: ^bb0(%{{.*}}: tensor<f32>, %[[I:.*]]: tensor<i64>):
// CHECK: %[[LIMIT:.*]] = tessera.constant dense<7> : tensor<i64>
// CHECK: %[[FIRST:.*]] = tessera.mul %[[I]], %[[LIMIT]]
// CHECK: tessera.while %{{.*}}, %[[FIRST]]
// CHECK: ^bb0(%{{.*}}: tensor<f32>, %[[J:.*]]: tensor<i64>):
// CHECK: %[[AT:.*]] = tessera.mul %[[J]]
// CHECK: tessera.philox
// CHECK: tessera.yield %{{.*}} : tensor<i1>
// CHECK: ^bb0(%{{.*}}: tensor<f32>, %[[K:.*]]: tensor<i64>):
// CHECK: tessera.add %[[K]]
// CHECK: {limit = 7 : i64}
func.func @nest(%s: tensor<f32>) -> tensor<f32> attributes {tessera.entry = "infer"} {
  %0 = tessera.scan %s {
  ^bb0(%c: tensor<f32>):
    %1 = tessera.while %c {
    ^bb0(%a: tensor<f32>):
      %2 = tessera.random_uniform {stream = 5 : i64} : tensor<f32>
      %3 = tessera.compare lt %a, %2 : tensor<f32> -> tensor<i1>
      tessera.yield %3 : tensor<i1>
    } do {
    ^bb0(%a: tensor<f32>):
      %2 = tessera.tanh %a : tensor<f32>
      tessera.yield %2 : tensor<f32>
    } {limit = 7 : i64} : tensor<f32> -> tensor<f32>
    tessera.yield %1 : tensor<f32>
  } {carried = 1 : i64, length = 60 : i64} : tensor<f32> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Outside of loops, and where dropout is none, nothing changes.
// CHECK-LABEL: func.func @alone
// CHECK-NOT: tessera.philox
// CHECK: {carried = 1 : i64, length = 3 : i64}
func.func @alone(%s: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) attributes {tessera.entry = "eval"} {
  %0 = tessera.scan %s {
  ^bb0(%carry: tensor<2xf32>):
    %1 = tessera.dropout %carry {rate = 0.5, stream = 3 : i64} : tensor<2xf32>
    tessera.yield %1 : tensor<2xf32>
  } {carried = 1 : i64, length = 3 : i64} : tensor<2xf32> -> tensor<2xf32>
  %2 = tessera.random_uniform {stream = 4 : i64} : tensor<2xf32>
  return %0, %2 : tensor<2xf32>, tensor<2xf32>
}
