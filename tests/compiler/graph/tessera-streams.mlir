// SPDX-License-Identifier: Apache-2.0
// Each draw has a stream of its own, by its call path; the paths' hashes are those of SHA-256 of the texts in the comments.
// RUN: tessera-opt -tessera-name-calls -inline -tessera-streams -tessera-drop-other-functions -split-input-file %s | FileCheck %s
// Lines added elsewhere change none.
// RUN: tessera-opt -tessera-name-calls -inline -tessera-streams -tessera-drop-other-functions -split-input-file %s > %t.one
// RUN: sed 's/^  return %1/\n\n  return %1/' %s > %t.mlir
// RUN: tessera-opt -tessera-name-calls -inline -tessera-streams -tessera-drop-other-functions -split-input-file %t.mlir > %t.two
// RUN: diff %t.one %t.two
// Inlined without names, two draws are one path: refused.
// RUN: not tessera-opt -inline -tessera-streams --no-output -split-input-file %s 2>&1 | FileCheck %s --check-prefix=SAME

func.func private @block(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tessera.dropout %x {rate = 0.5} : tensor<4xf32>
  %1 = tessera.dropout %0 {rate = 0.5} : tensor<4xf32>
  return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func @train
// SAME: tessera-streams.mlir:14:8: error: [TSR-0226] tessera.dropout: 'train' would draw the numbers of 'train'; give one of them a `stream`
func.func @train(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  // train/block#0/dropout#0
  // CHECK: tessera.dropout %{{.*}} {rate = 5.000000e-01 : f64, stream = 1138025290 : i64}
  // train/block#0/dropout#1
  // CHECK: tessera.dropout %{{.*}} {rate = 5.000000e-01 : f64, stream = 3315172529 : i64}
  %0 = func.call @block(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // train/block#1/dropout#0
  // CHECK: tessera.dropout %{{.*}} {rate = 5.000000e-01 : f64, stream = 2528331534 : i64}
  // CHECK: tessera.dropout
  %1 = func.call @block(%0) : (tensor<4xf32>) -> tensor<4xf32>
  // train/random_normal#0
  // CHECK: tessera.random_normal {stream = 3542068923 : i64}
  %2 = tessera.random_normal : tensor<4xf32>
  // CHECK: tessera.random_uniform {stream = 7 : i64}
  %3 = tessera.random_uniform {stream = 7 : i64} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Attention that drops weights draws, too; what drops none does not.
// CHECK-LABEL: func.func @drop
func.func @drop(%x: tensor<2x2x5x8xf32> {tessera.name = "x"}) -> (tensor<2x2x5x8xf32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  // drop/attention#0
  // CHECK: tessera.attention %{{.*}} {dropout = 1.000000e-01 : f64, stream = 912376175 : i64}
  // drop/attention#1
  // CHECK: tessera.attention %{{.*}} {dropout = 1.000000e-01 : f64, stream = 845438027 : i64}
  // CHECK: tessera.attention %{{[^{]* : tensor}}
  %0 = tessera.attention %x, %x, %x {dropout = 0.1} : tensor<2x2x5x8xf32>
  %1 = tessera.attention %0, %x, %x {dropout = 0.1} : tensor<2x2x5x8xf32>
  %2 = tessera.attention %1, %x, %x : tensor<2x2x5x8xf32>
  return %2 : tensor<2x2x5x8xf32>
}
