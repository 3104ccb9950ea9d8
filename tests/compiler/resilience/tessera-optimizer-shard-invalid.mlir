// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt -tessera-inline-regions -tessera-autodiff -tessera-optimizer-shard -split-input-file --no-output %s 2>&1 | FileCheck %s

func.func @f() {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<3xf32>
  %s = tessera.optimizer.shard %w {axis = "data", policy = "zero2"} : (tensor<3xf32>) -> tensor<3xf32>
  %loss = tessera.sum %s {axes = [0]} : tensor<3xf32> -> tensor<f32>
  // CHECK: [[@LINE+1]]:3: error: [TSR-0606] optimizer state is sharded over axis 'data', but the module's tessera.mesh gives it no size from 1 to 1024
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: [TSR-0605] tessera.optimizer.shard: needs a named parameter or its state, an axis and a policy
  %s = tessera.optimizer.shard %x {axis = "data", policy = "zero2"} : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @f() {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<3xf32>
  // CHECK: [TSR-0605] tessera.optimizer.shard: state cannot be offloaded yet
  %s = tessera.optimizer.shard %w {axis = "data", policy = "zero2", offload = #tessera.opt.offload<"host">} : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: [TSR-0609] tessera_sr.reduce_scatter: [1, 4) at position 0 is not a range of 3 elements
  %s = tessera_sr.reduce_scatter %x {axis = "data", begin = 1 : i64, end = 4 : i64, position = 0 : i64} : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // CHECK: [TSR-0609] tessera_sr.all_gather: the result does not hold the elements of all slices
  %s = tessera_sr.all_gather %x, %x {axis = "data"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>, %y: tensor<4xf32>) {
  // CHECK: [TSR-0609] tessera_sr.all_reduce: operands differ in shape
  %s = tessera_sr.all_reduce %x, %y {axis = "data"} : (tensor<3xf32>, tensor<4xf32>) -> tensor<3xf32>
  return
}

// -----

module attributes {tessera.mesh = {data = 2, model = 1}} {
func.func @f() {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<3xf32>
  // CHECK: [TSR-0606] tessera.optimizer.shard: mesh is 'dataxpipeline'; expected axes of the module's tessera.mesh, each once, 'data' among them
  %s = tessera.optimizer.shard %w {axis = "data", policy = "zero2", mesh = ["data", "pipeline"]} : (tensor<3xf32>) -> tensor<3xf32>
  return
}
}

// -----

module attributes {tessera.mesh = {data = 2, model = 1}} {
func.func @f() {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<3xf32>
  // CHECK: [TSR-0606] tessera.optimizer.shard: mesh is 'model'; expected axes
  %s = tessera.optimizer.shard %w {shard = #tessera.opt.shard<axis = "data", mesh = "model">, policy = "zero2"} : (tensor<3xf32>) -> tensor<3xf32>
  return
}
}

// -----

func.func @f() {
  %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<3xf32>
  // CHECK: [TSR-0606] tessera.optimizer.shard: mesh is 'dataxmodel'; expected axes
  %s = tessera.optimizer.shard %w {axis = "data", policy = "zero2", mesh = "dataxmodel"} : (tensor<3xf32>) -> tensor<3xf32>
  return
}
