// SPDX-License-Identifier: Apache-2.0
// Ops on whole tensors: both forms read back to the same text.
// RUN: tessera-opt %s > %t.pretty
// RUN: tessera-opt --mlir-print-op-generic %s | tessera-opt > %t.generic
// RUN: diff %t.pretty %t.generic
// RUN: FileCheck %s < %t.pretty

func.func @words(%a: tensor<4x6xui8>, %b: tensor<6x3xi8>) {
  // CHECK: tessera.words {{.*}} tensor<4x6xui8> -> tensor<4x2xui32>
  %0 = tessera.words %a {axis = 1} : tensor<4x6xui8> -> tensor<4x2xui32>
  // CHECK: tessera.matmul {{.*}} -> tensor<4x3xi32>
  %1 = tessera.matmul %a, %b : (tensor<4x6xui8>, tensor<6x3xi8>) -> tensor<4x3xi32>
  return
}

func.func @move(%x: tensor<4x6xf32>, %i: tensor<3xi64>, %u: tensor<4x3xf32>) {
  // CHECK: tessera.slice
  %0 = tessera.slice %x {start = [1, 0], size = [2, 3], stride = [1, 2]} : tensor<4x6xf32> -> tensor<2x3xf32>
  // CHECK: tessera.pad
  %1 = tessera.pad %x {low = [1, 0], high = [0, 2], interior = [0, 1], value = -1.5} : tensor<4x6xf32> -> tensor<5x13xf32>
  // CHECK: tessera.concat
  %2 = tessera.concat %x, %x {axis = 1} : tensor<4x6xf32> -> tensor<4x12xf32>
  // CHECK: tessera.split
  %3:2 = tessera.split %x {axis = 1} : tensor<4x6xf32> -> (tensor<4x2xf32>, tensor<4x4xf32>)
  // CHECK: tessera.gather
  %4 = tessera.gather %x, %i {axis = 1} : (tensor<4x6xf32>, tensor<3xi64>) -> tensor<4x3xf32>
  // CHECK: tessera.scatter_add
  %5 = tessera.scatter_add %x, %i, %u {axis = 1} : (tensor<4x6xf32>, tensor<3xi64>, tensor<4x3xf32>)
  // CHECK: tessera.scatter %{{.*}} {axis = 1 : i64}
  %scattered = tessera.scatter %x, %i, %u {axis = 1} : (tensor<4x6xf32>, tensor<3xi64>, tensor<4x3xf32>)
  // CHECK: tessera.scatter %{{.*}} {axis = 1 : i64, how = "max"}
  %largest = tessera.scatter %x, %i, %u {axis = 1, how = "max"} : (tensor<4x6xf32>, tensor<3xi64>, tensor<4x3xf32>)
  // CHECK: tessera.one_hot
  %6 = tessera.one_hot %i {axis = 1} : tensor<3xi64> -> tensor<3x5xf32>
  // CHECK: tessera.iota
  %7 = tessera.iota {axis = 1} : tensor<4x5xi64>
  // CHECK: tessera.sizes {values = [4, -1]} : tensor<2xi64>
  %sizes = tessera.sizes {values = [4, -1]} : tensor<2xi64>
  // CHECK: tessera.cumsum
  %8 = tessera.cumsum %x {axis = 1, exclusive = true} : tensor<4x6xf32>
  // CHECK: tessera.sort
  %9:2 = tessera.sort %x {axis = 1} : tensor<4x6xf32> -> (tensor<4x6xf32>, tensor<4x6xi64>)
  // CHECK: tessera.top_k
  %10:2 = tessera.top_k %x {axis = 1, k = 2} : tensor<4x6xf32> -> (tensor<4x2xf32>, tensor<4x2xi64>)
  return
}
func.func @rows(%x: tensor<4x6xf32>, %s: tensor<6xf32>, %c: tensor<6xf32>, %m: tensor<4x1xf32>) {
  // CHECK: tessera.softmax_safe
  %0 = tessera.softmax_safe %x {axis = 1} : tensor<4x6xf32>
  // CHECK: tessera.logsumexp_safe
  %1 = tessera.logsumexp_safe %x {axes = [1]} : tensor<4x6xf32> -> tensor<4xf32>
  // CHECK: tessera.layernorm_safe
  %2 = tessera.layernorm_safe %x, %s, %c {axes = [1], eps = 1.0e-5} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK: tessera.rmsnorm_safe
  %3 = tessera.rmsnorm_safe %x, %s {axes = [1]} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK: tessera.repair %{{.*}}, %{{.*}} {axes = [1], of = "mean"} : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %6 = tessera.repair %x, %m {axes = [1], of = "mean"} : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  // CHECK: tessera.repair %{{.*}}, %{{.*}}, %{{.*}} {axes = [1], eps = 1.000000e-05 : f64, of = "offset"}
  %7 = tessera.repair %x, %m, %6 {axes = [1], eps = 1.0e-5, of = "offset"} : (tensor<4x6xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  // CHECK: tessera.repair %{{.*}}, %{{.*}} {axes = [0], of = "variance"} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %9 = tessera.repair %x, %s {axes = [0], of = "variance"} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<6xf32>
  // CHECK: tessera.repair %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {axes = [1], of = "incoming_mean"}
  %10 = tessera.repair %x, %2, %m, %6, %m {axes = [1], of = "incoming_mean"} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  // CHECK: tessera.mul_add %{{.*}}, %{{.*}}, %{{.*}} : (tensor<4x6xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  %8 = tessera.mul_add %x, %6, %7 : (tensor<4x6xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  // CHECK: tessera.batch_norm
  %4 = tessera.batch_norm %x, %s, %s, %c, %c {axis = 1} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK: tessera.batch_norm_train
  %5:3 = tessera.batch_norm_train %x, %s, %s, %c, %c {axis = 1} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)
  return
}
func.func @attention(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x7x8xf32>, %m: tensor<5x7xi1>, %g: tensor<2x4x5x8xf32>) {
  // CHECK: tessera.attention
  %0 = tessera.attention %q, %k, %k {causal} : (tensor<2x4x5x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>) -> tensor<2x4x5x8xf32>
  // CHECK: tessera.attention
  %1:2 = tessera.attention %q, %k, %k, %m {scale = 0.5} : (tensor<2x4x5x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>, tensor<5x7xi1>) -> (tensor<2x4x5x8xf32>, tensor<2x4x5xf32>)
  // CHECK: tessera.attention_grad
  %2:3 = tessera.attention_grad %q, %k, %k, %1#0, %1#1, %g, %m {scale = 0.5} : (tensor<2x4x5x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5xf32>, tensor<2x4x5x8xf32>, tensor<5x7xi1>) -> (tensor<2x4x5x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>)
  // CHECK: tessera.attention %{{.*}} {dropout = 1.000000e-01 : f64, stream = 7 : i64}
  %4 = tessera.attention %q, %k, %k, %m {dropout = 0.1, stream = 7 : i64} : (tensor<2x4x5x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>, tensor<5x7xi1>) -> tensor<2x4x5x8xf32>
  // CHECK: tessera.rotary
  %3 = tessera.rotary %q {axis = 2, interleaved} : tensor<2x4x5x8xf32>
  return
}
func.func @image(%x: tensor<2x8x9x4xf32>, %f: tensor<3x3x2x6xf32>, %g: tensor<2x4x5x6xf32>, %p: tensor<2x4x4x4xf32>) {
  // CHECK: tessera.conv2d
  %0 = tessera.conv2d %x, %f {strides = [2, 2], padding = [1, 0, 1, 1], dilation = [1, 1], groups = 2 : i64} : (tensor<2x8x9x4xf32>, tensor<3x3x2x6xf32>) -> tensor<2x4x5x6xf32>
  // CHECK: tessera.conv2d_grad_input
  %1 = tessera.conv2d_grad_input %f, %g {strides = [2, 2], padding = [1, 0, 1, 1], dilation = [1, 1], groups = 2 : i64} : (tensor<3x3x2x6xf32>, tensor<2x4x5x6xf32>) -> tensor<2x8x9x4xf32>
  // CHECK: tessera.conv2d_grad_filter
  %2 = tessera.conv2d_grad_filter %x, %g {strides = [2, 2], padding = [1, 0, 1, 1], dilation = [1, 1], groups = 2 : i64} : (tensor<2x8x9x4xf32>, tensor<2x4x5x6xf32>) -> tensor<3x3x2x6xf32>
  // CHECK: tessera.max_pool2d
  %3 = tessera.max_pool2d %x {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]} : tensor<2x8x9x4xf32> -> tensor<2x4x4x4xf32>
  // CHECK: tessera.avg_pool2d
  %4 = tessera.avg_pool2d %x {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0], exclude_padding} : tensor<2x8x9x4xf32> -> tensor<2x4x4x4xf32>
  // CHECK: tessera.max_pool2d_grad
  %5 = tessera.max_pool2d_grad %x, %p {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]} : (tensor<2x8x9x4xf32>, tensor<2x4x4x4xf32>)
  // CHECK: tessera.avg_pool2d_grad
  %6 = tessera.avg_pool2d_grad %p {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]} : tensor<2x4x4x4xf32> -> tensor<2x8x9x4xf32>
  return
}
func.func @random(%x: tensor<4x6xbf16>) {
  // CHECK: tessera.dropout
  %0 = tessera.dropout %x {rate = 0.25} : tensor<4x6xbf16>
  // CHECK: tessera.random_uniform
  %1 = tessera.random_uniform {low = -1.0, high = 1.0} : tensor<4x6xf32>
  // CHECK: tessera.random_normal
  %2 = tessera.random_normal : tensor<4x6xf64>
  // CHECK: tessera.seed
  %3 = tessera.seed : tensor<i64>
  // CHECK: tessera.hyperparameter {key = "alpha", least = 0.000000e+00 : f64, most = 1.000000e+00 : f64, value = 5.000000e-01 : f64} : tensor<f32>
  %4 = tessera.hyperparameter {key = "alpha", value = 0.5, least = 0.0, most = 1.0} : tensor<f32>
  return
}
func.func @control(%c: tensor<i1>, %x: tensor<4x6xf32>, %s: tensor<6xf32>, %i: tensor<i64>) {
  // CHECK: tessera.if
  %0 = tessera.if %c {
    // CHECK: tessera.exp
    %a = tessera.exp %x : tensor<4x6xf32>
    tessera.yield %a : tensor<4x6xf32>
  } else {
    tessera.yield %x : tensor<4x6xf32>
  } : tensor<i1> -> tensor<4x6xf32>
  // CHECK: tessera.while
  %1 = tessera.while %i {
  ^bb0(%n: tensor<i64>):
    // CHECK: tessera.constant
    %k = tessera.constant dense<3> : tensor<i64>
    // CHECK: tessera.compare
    %l = tessera.compare lt %n, %k : tensor<i64> -> tensor<i1>
    tessera.yield %l : tensor<i1>
  } do {
  ^bb0(%n: tensor<i64>):
    // CHECK: tessera.constant
    %k = tessera.constant dense<1> : tensor<i64>
    // CHECK: tessera.add
    %l = tessera.add %n, %k : tensor<i64>
    tessera.yield %l : tensor<i64>
  } {limit = 5 : i64} : tensor<i64> -> tensor<i64>
  // CHECK: tessera.scan
  %2:2 = tessera.scan %s, %x {
  ^bb0(%carry: tensor<6xf32>, %row: tensor<6xf32>):
    // CHECK: tessera.add
    %n = tessera.add %carry, %row : tensor<6xf32>
    // CHECK: tessera.tanh
    %y = tessera.tanh %n : tensor<6xf32>
    tessera.yield %n, %y : tensor<6xf32>, tensor<6xf32>
  } {carried = 1 : i64} : (tensor<6xf32>, tensor<4x6xf32>) -> (tensor<6xf32>, tensor<4x6xf32>)
  return
}

// CHECK-LABEL: func.func @derivatives
func.func @derivatives(%x: tensor<6xf32>, %n: tensor<i64>, %t: tensor<6xf32>) {
  // CHECK: %{{.*}}:2 = tessera.jvp %arg0, %arg1, %arg2 {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<6xf32>, %{{.*}}: tensor<i64>):
  %0:2 = tessera.jvp %x, %n, %t {
  ^bb0(%a: tensor<6xf32>, %k: tensor<i64>):
    %y = tessera.ipow %a, %k : (tensor<6xf32>, tensor<i64>) -> tensor<6xf32>
    // CHECK: tessera.yield %{{.*}} : tensor<6xf32>
    // CHECK-NEXT: } : (tensor<6xf32>, tensor<i64>, tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>)
    tessera.yield %y : tensor<6xf32>
  } : (tensor<6xf32>, tensor<i64>, tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>)
  // CHECK: %{{.*}}:3 = tessera.vjp %arg0, %arg1, %arg2 {
  %1:3 = tessera.vjp %x, %n, %t {
  ^bb0(%a: tensor<6xf32>, %k: tensor<i64>):
    %y = tessera.ipow %a, %k : (tensor<6xf32>, tensor<i64>) -> tensor<6xf32>
    tessera.yield %y, %k : tensor<6xf32>, tensor<i64>
    // CHECK: } : (tensor<6xf32>, tensor<i64>, tensor<6xf32>) -> (tensor<6xf32>, tensor<i64>, tensor<6xf32>)
  } : (tensor<6xf32>, tensor<i64>, tensor<6xf32>) -> (tensor<6xf32>, tensor<i64>, tensor<6xf32>)
  // CHECK: %{{.*}} = tessera.custom_derivative %arg0 {
  // CHECK: } vjp {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<6xf32>, %{{.*}}: tensor<6xf32>, %{{.*}}: tensor<6xf32>):
  // CHECK: } jvp {
  // CHECK: } : tensor<6xf32> -> tensor<6xf32>
  %2 = tessera.custom_derivative %x {
  ^bb0(%a: tensor<6xf32>):
    %y = tessera.floor %a : tensor<6xf32>
    tessera.yield %y : tensor<6xf32>
  } vjp {
  ^bb0(%a: tensor<6xf32>, %y: tensor<6xf32>, %g: tensor<6xf32>):
    tessera.yield %g : tensor<6xf32>
  } jvp {
  ^bb0(%a: tensor<6xf32>, %y: tensor<6xf32>, %d: tensor<6xf32>):
    tessera.yield %d : tensor<6xf32>
  } : tensor<6xf32> -> tensor<6xf32>
  // CHECK: %{{.*}} = tessera.custom_derivative %arg0 {
  // CHECK: } jvp {
  // CHECK: } : tensor<6xf32> -> tensor<6xf32>
  %3 = tessera.custom_derivative %x {
  ^bb0(%a: tensor<6xf32>):
    tessera.yield %a : tensor<6xf32>
  } jvp {
  ^bb0(%a: tensor<6xf32>, %y: tensor<6xf32>, %d: tensor<6xf32>):
    tessera.yield %d : tensor<6xf32>
  } : tensor<6xf32> -> tensor<6xf32>
  return
}

// CHECK-LABEL: func.func @experts
func.func @experts(%logits: tensor<2x5x3xf32>, %limit: tensor<3xi64>, %x: tensor<2x5x7xf32>) -> (tensor<2x5x7xf32>, tensor<2x5x2xf32>) {
  // CHECK: tessera.moe_route {{.*}} {capacity = 4 : i64, k = 2 : i64, normalize = true}
  %w, %slots, %balance, %load = tessera.moe_route %logits, %limit {k = 2, capacity = 4, normalize = true} : (tensor<2x5x3xf32>, tensor<3xi64>) -> (tensor<2x5x2xf32>, tensor<2x5x2xi64>, tensor<f32>, tensor<3xi64>)
  // CHECK: tessera.moe_dispatch {{.*}} {capacity = 4 : i64, experts = 3 : i64}
  %y = tessera.moe_dispatch %x, %slots {experts = 3, capacity = 4} : (tensor<2x5x7xf32>, tensor<2x5x2xi64>) -> tensor<3x2x4x7xf32>
  // CHECK: tessera.moe_combine
  %z = tessera.moe_combine %y, %slots, %w : (tensor<3x2x4x7xf32>, tensor<2x5x2xi64>, tensor<2x5x2xf32>) -> tensor<2x5x7xf32>
  // CHECK: tessera.moe_dot
  %d = tessera.moe_dot %y, %slots, %x : (tensor<3x2x4x7xf32>, tensor<2x5x2xi64>, tensor<2x5x7xf32>) -> tensor<2x5x2xf32>
  return %z, %d : tensor<2x5x7xf32>, tensor<2x5x2xf32>
}
