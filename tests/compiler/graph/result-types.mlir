// SPDX-License-Identifier: Apache-2.0
// Result types that the text leaves out follow from the operands; one type stands for all operands.
// RUN: tessera-opt --split-input-file --verify-diagnostics %s | FileCheck %s

// CHECK-LABEL: func.func @inferred
func.func @inferred(%x: tensor<4x3xf32>, %r: tensor<3xf32>, %l: tensor<4xi64>, %d: tensor<?x3xf32>, %p: tensor<i1>) -> tensor<4x2xf32> {
  // CHECK: tessera.add %arg0, %arg0 : tensor<4x3xf32>{{$}}
  %0 = tessera.add %x, %x : tensor<4x3xf32>
  // CHECK: tessera.sub %arg0, %arg1 : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %1 = tessera.sub %x, %r : (tensor<4x3xf32>, tensor<3xf32>)
  // CHECK: tessera.mul %arg3, %arg3 : tensor<?x3xf32>{{$}}
  %2 = tessera.mul %d, %d : tensor<?x3xf32>
  // CHECK: tessera.compare lt %arg0, %arg0 : tensor<4x3xf32> -> tensor<4x3xi1>
  %3 = tessera.compare lt %x, %x : tensor<4x3xf32>
  // CHECK: tessera.where {{.*}} : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %4 = tessera.where %3, %x, %r : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<3xf32>)
  // CHECK: tessera.matmul {{.*}} {transpose_b = true} : tensor<4x3xf32> -> tensor<4x4xf32>
  %5 = tessera.matmul %x, %x {transpose_b = true} : tensor<4x3xf32>
  // CHECK: tessera.cross_entropy {{.*}} : (tensor<4x3xf32>, tensor<4xi64>) -> tensor<4xf32>
  %6 = tessera.cross_entropy %x, %l : (tensor<4x3xf32>, tensor<4xi64>)
  // CHECK: tessera.mean {{.*}} : tensor<4x3xf32> -> tensor<f32>
  %7 = tessera.mean %x {axes = [0, 1]} : tensor<4x3xf32>
  // CHECK: tessera.top_k {{.*}} : tensor<4x3xf32> -> (tensor<4x2xf32>, tensor<4x2xi64>)
  %v, %i = tessera.top_k %x {axis = 1, k = 2} : tensor<4x3xf32>
  // CHECK: %[[V:.*]]:2 = tessera.scan %arg1, %arg0
  // CHECK: } {carried = 1 : i64} : (tensor<3xf32>, tensor<4x3xf32>) -> (tensor<3xf32>, tensor<4x3xf32>)
  %8:2 = tessera.scan %r, %x {
  ^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):
    tessera.yield %a, %b : tensor<3xf32>, tensor<3xf32>
  } {carried = 1} : (tensor<3xf32>, tensor<4x3xf32>) -> (tensor<3xf32>, tensor<4x3xf32>)
  // CHECK: %{{.*}} = tessera.minimize %{{.*}} {optimizer = #tessera.adamw<lr = 0.001>} : tensor<f32>{{$}}
  %n = tessera.minimize %7 {optimizer = #tessera.adamw<lr = 0.001, beta2 = 0.999, weight_decay = 0.01>} : tensor<f32>
  // CHECK: tessera.minimize %{{.*}} {optimizer = #tessera.sgd<lr = 0.1>} : tensor<f32>{{$}}
  tessera.minimize %7 {optimizer = #tessera.sgd<lr = 0.1>} : tensor<f32>
  // CHECK: tessera.minimize %{{.*}} {optimizer = #tessera.nesterov<lr = 0.1, momentum = 0.9>} : tensor<f32>{{$}}
  tessera.minimize %7 {optimizer = #tessera.nesterov<lr = 0.1, momentum = 0.9>} : tensor<f32>
  return %v : tensor<4x2xf32>
}

// -----

func.func @rule(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{tessera.matmul: contracted dimensions differ: lhs dim 1 is 3, rhs dim 0 is 4}}
  %0 = tessera.matmul %x, %x : tensor<4x3xf32>
  return
}

// -----

func.func @axis(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{axis 2 is outside [0, 2)}}
  %0 = tessera.sum %x {axes = [2]} : tensor<4x3xf32>
  return
}

// -----

func.func @no_attribute(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{requires attribute 'axes'}}
  %0 = tessera.sum %x : tensor<4x3xf32>
  return
}

// -----

func.func @declared(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{has no result types, which do not follow from the operands; expected '->'}}
  %0 = tessera.reshape %x : tensor<4x3xf32>
  return
}

// -----

func.func @count(%x: tensor<4x3xf32>, %c: tensor<4x3xi1>) {
  // expected-error@+1 {{has 3 operands and 2 operand types}}
  %0 = tessera.where %c, %x, %x : (tensor<4x3xi1>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @arrow(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{expected '->' before the result type}}
  %0 = tessera.sum %x {axes = [0]} : tensor<4x3xf32> tensor<3xf32>
  return
}

// -----

func.func @operands(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{expected 2 operands, but found 3}}
  %0 = tessera.add %x, %x, %x : tensor<4x3xf32>
  return
}

// -----

func.func @operand(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{expected 2 operands, but found 1}}
  %0 = tessera.matmul %x : tensor<4x3xf32>
  return
}

// -----

func.func @type(%x: i32) {
  // expected-error@+1 {{operand #0 must be ranked tensor}}
  %0 = tessera.add %x, %x : i32
  return
}
