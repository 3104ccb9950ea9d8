// SPDX-License-Identifier: Apache-2.0
// Functions that keep what they state. What is refused: rejected/0250*, 0251*, 0252*, 0253*, 0313*.
// RUN: tessera-opt -tessera-effects %s | FileCheck %s
// RUN: tessera-opt -pm-v1_1-verify %s | FileCheck %s
// RUN: tessera-opt -tessera-handlers -tessera-specialize-calls -tessera-verify -tessera-name-calls -inline -tessera-streams -tessera-inline-regions %s | FileCheck %s --check-prefix=SEEDS

// CHECK: func.func private @noise({{.*}} attributes {tessera.effects = ["random"]}
func.func private @noise(%x: tensor<4xf32>) -> tensor<4xf32> attributes {tessera.effects = ["random"]} {
  %0 = tessera.dropout %x {rate = 0.5} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Hidden effects need not be stated.
// CHECK: func.func private @hidden({{.*}} attributes {tessera.effects = []}
func.func private @hidden(%x: tensor<4xf32>) -> tensor<4xf32> attributes {tessera.effects = []} {
  // CHECK-NEXT: tessera.effects.suspend {effects = ["random", "io"]} {
  %0 = tessera.effects.suspend {effects = ["random", "io"]} {
    %1 = func.call @noise(%x) : (tensor<4xf32>) -> tensor<4xf32>
    tessera.yield %1 : tensor<4xf32>
  } : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// It states more than it does, so its callers have more.
func.func private @may_save(%x: tensor<4xf32>) -> tensor<4xf32> attributes {tessera.effects = ["io"]} {
  return %x : tensor<4xf32>
}

// CHECK: func.func @predict({{.*}}tessera.effects = ["io", "random"]
func.func @predict(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer", tessera.effects = ["io", "random"]} {
  %0 = func.call @hidden(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = func.call @may_save(%0) : (tensor<4xf32>) -> tensor<4xf32>
  // SEEDS-LABEL: func.func @predict(
  // SEEDS: tessera.dropout {{.*}}stream = {{[0-9]+}} : i64} : tensor<4xf32>
  %2 = func.call @noise(%1) : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

func.func private @seeded(%x: tensor<4xf32>) -> tensor<4xf32> attributes {tessera.deterministic = {seed = 4294967295 : i64}} {
  %0 = func.call @noise(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A deterministic function gets its effects as an attribute.
// CHECK: func.func @draw({{.*}}tessera.effects = ["random"]
func.func @draw(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}, tensor<4x4xf32> {tessera.name = "z"})
    attributes {tessera.entry = "infer", tessera.deterministic = {seed = 0 : i64}} {
  // SEEDS-LABEL: func.func @draw(
  // SEEDS: tessera.random_normal {{.*}}tessera.seed = 0 : i64
  %0 = tessera.random_normal : tensor<4xf32>
  // SEEDS: tessera.dropout {{.*}}tessera.seed = 0 : i64
  %1 = func.call @noise(%0) : (tensor<4xf32>) -> tensor<4xf32>
  // SEEDS: tessera.dropout {{.*}}tessera.seed = 4294967295 : i64
  %2 = func.call @seeded(%1) : (tensor<4xf32>) -> tensor<4xf32>
  // SEEDS-NOT: tessera.effects.suspend
  %3 = tessera.effects.suspend {effects = ["nondeterministic"]} {
    %4 = tessera.param "w" init = #tessera.constant<0.5> : tensor<4x4xf32>
    %5 = tessera.matmul %4, %4 {allow_tf32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    tessera.yield %5 : tensor<4x4xf32>
  } : tensor<4x4xf32>
  return %2, %3 : tensor<4xf32>, tensor<4x4xf32>
}

// Handlers change state when they run.
func.func private @restart() attributes {tessera.effects = ["state"]} {
  %0 = tessera.param "w" init = #tessera.constant<0.5> : tensor<4x4xf32>
  tessera.assign %0 to "w" : tensor<4x4xf32>
  return
}

// CHECK: func.func @train(
func.func @train(%x: tensor<8x4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"})
    attributes {tessera.entry = "train", tessera.effects = ["state", "io"]} {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<4x4xf32>
  %t, %0 = tessera.resilience.region {name = "forward"} {
    tessera.resilience.on_failure(handler = @restart)
    %1 = tessera.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    tessera.yield %1 : tensor<8x4xf32>
  } : !tessera.res.token, tensor<8x4xf32>
  tessera.target.export %t : !tessera.res.token
  %2 = tessera.mean %0 {axes = [0, 1]} : tensor<8x4xf32> -> tensor<f32>
  tessera.minimize %2 {optimizer = #tessera.sgd<lr = 0.1>} : tensor<f32>
  return %2 : tensor<f32>
}
