// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -split-input-file -tessera-graph -tsched-fuse %s | FileCheck %s

// Softmax, the norms, cross entropy and attention are one kernel each, forward and backward, whose bytes are those of what it reads
// and writes once.

// One matrix read, one written.
// CHECK-LABEL: func.func @softmax(
// CHECK-COUNT-1: tsched.call
// CHECK-NOT: tsched.call
// CHECK: tsched.func
// CHECK-SAME: bytes = 49152 : i64
// CHECK-SAME: kind = "rows"
func.func @softmax(%x: tensor<64x96xf32> {tessera.name = "x"})
    -> (tensor<64x96xf32> {tessera.name = "out"}) attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<64x96xf32>
  return %y : tensor<64x96xf32>
}

// -----

// Logits and the gradient of the result read; the result, for the loss, and the gradient of the logits written: once each.
// CHECK-LABEL: func.func @softmax_gradient(
// CHECK: tsched.call @k0_matmul
// CHECK-NEXT: %[[R:.*]]:2 = tsched.call @[[ROWS:k1_[a-z_0-9]*]](
// CHECK-NEXT: tsched.call @k2_mul_sum(
// CHECK-NEXT: tsched.call @k3_matmul{{[a-z_0-9]*}}(
// CHECK-NOT: tsched.call
// CHECK: tsched.func @[[ROWS]](
// CHECK-SAME: bytes = 98304 : i64
// CHECK-SAME: kind = "rows"
func.func @softmax_gradient(%x: tensor<64x32xf32> {tessera.data = "x"}, %g: tensor<64x96xf32> {tessera.data = "g"})
    -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<32x96xf32>
  %p = tessera.matmul %x, %w : (tensor<64x32xf32>, tensor<32x96xf32>) -> tensor<64x96xf32>
  %y = tessera.softmax_safe %p {axis = 1 : i64} : tensor<64x96xf32>
  %z = tessera.mul %y, %g : tensor<64x96xf32>
  %l = tessera.sum %z {axes = [0, 1]} : tensor<64x96xf32> -> tensor<f32>
  tessera.minimize %l {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %l : tensor<f32>
}

// -----

// One matrix, scale and bias read, one matrix written.
// CHECK-LABEL: func.func @layernorm(
// CHECK-COUNT-1: tsched.call
// CHECK-NOT: tsched.call
// CHECK: tsched.func
// CHECK-SAME: bytes = 49920 : i64
// CHECK-SAME: kind = "rows"
func.func @layernorm(%x: tensor<64x96xf32> {tessera.name = "x"})
    -> (tensor<64x96xf32> {tessera.name = "out"}) attributes {tessera.entry = "infer"} {
  %s = tessera.param "s" init = #tessera.constant<1.0> : tensor<96xf32>
  %b = tessera.param "b" init = #tessera.constant<0.0> : tensor<96xf32>
  %y = tessera.layernorm_safe %x, %s, %b {axes = [1], eps = 1.0e-5} : (tensor<64x96xf32>, tensor<96xf32>, tensor<96xf32>) -> tensor<64x96xf32>
  return %y : tensor<64x96xf32>
}

// -----

// Forward and backward in one kernel: the row and the gradient of its result are read, what is normalized and the gradient are
// written. Sums over rows, for scale, bias and loss, are kernels of their own.
// CHECK-LABEL: func.func @layernorm_gradient(
// CHECK: tsched.call @k0_matmul
// CHECK-NEXT: %[[R:.*]]:2 = tsched.call @[[ROWS:k1_[a-z_0-9]*]](
// CHECK: tsched.func @[[ROWS]](
// CHECK-SAME: bytes = 98688 : i64
// CHECK-SAME: kind = "rows"
// CHECK-NOT: kind = "rows"
func.func @layernorm_gradient(%x: tensor<64x32xf32> {tessera.data = "x"}, %g: tensor<64x96xf32> {tessera.data = "g"})
    -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<32x96xf32>
  %p = tessera.matmul %x, %w : (tensor<64x32xf32>, tensor<32x96xf32>) -> tensor<64x96xf32>
  %s = tessera.param "s" init = #tessera.constant<1.0> : tensor<96xf32>
  %b = tessera.param "b" init = #tessera.constant<0.0> : tensor<96xf32>
  %y = tessera.layernorm_safe %p, %s, %b {axes = [1], eps = 1.0e-5} : (tensor<64x96xf32>, tensor<96xf32>, tensor<96xf32>) -> tensor<64x96xf32>
  %z = tessera.mul %y, %g : tensor<64x96xf32>
  %l = tessera.sum %z {axes = [0, 1]} : tensor<64x96xf32> -> tensor<f32>
  tessera.minimize %l {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %l : tensor<f32>
}

// -----

// One matrix read, one written.
// CHECK-LABEL: func.func @rmsnorm(
// CHECK-COUNT-1: tsched.call
// CHECK-NOT: tsched.call
// CHECK: tsched.func
// CHECK-SAME: bytes = 49152 : i64
// CHECK-SAME: kind = "rows"
func.func @rmsnorm(%x: tensor<64x96xf32> {tessera.name = "x"})
    -> (tensor<64x96xf32> {tessera.name = "out"}) attributes {tessera.entry = "infer"} {
  %y = tessera.rmsnorm_safe %x {axes = [1], eps = 1.0e-5} : tensor<64x96xf32>
  return %y : tensor<64x96xf32>
}

// -----

// Logits and labels read, losses written.
// CHECK-LABEL: func.func @cross_entropy(
// CHECK-COUNT-1: tsched.call
// CHECK-NOT: tsched.call
// CHECK: tsched.func
// CHECK-SAME: bytes = 25344 : i64
// CHECK-SAME: kind = "cross_entropy"
func.func @cross_entropy(%x: tensor<64x96xf32> {tessera.name = "x"}, %n: tensor<64xi64> {tessera.name = "n"})
    -> (tensor<64xf32> {tessera.name = "out"}) attributes {tessera.entry = "infer"} {
  %y = tessera.cross_entropy %x, %n : (tensor<64x96xf32>, tensor<64xi64>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}

// -----

// Logits of 16 bits are widened as they are read, their gradient is narrowed as it is written: none of f32 is stored.
// CHECK-LABEL: func.func @cross_entropy_narrow(
// CHECK-NEXT: tsched.call @k0_cast_cross_entropy(
// CHECK-NEXT: tsched.call @k1_cast_cross_entropy_grad_cast(
// CHECK-NOT: tsched.call
// CHECK: tsched.func @k0_cast_cross_entropy(
// CHECK-SAME: bytes = 13056 : i64
// CHECK: tsched.func @k1_cast_cross_entropy_grad_cast(
// CHECK-SAME: bytes = 25344 : i64
// CHECK-SAME: kind = "cross_entropy_grad"
func.func @cross_entropy_narrow(%x: tensor<64x96xbf16> {tessera.name = "x"}, %n: tensor<64xi64> {tessera.name = "n"}, %d: tensor<64xf32> {tessera.name = "d"})
    -> (tensor<64xf32> {tessera.name = "out"}, tensor<64x96xbf16> {tessera.name = "dx"}) attributes {tessera.entry = "infer"} {
  %f = tessera.cast %x : tensor<64x96xbf16> -> tensor<64x96xf32>
  %y = tessera.cross_entropy %f, %n : (tensor<64x96xf32>, tensor<64xi64>) -> tensor<64xf32>
  %g = tessera.cross_entropy_grad %f, %n, %d : (tensor<64x96xf32>, tensor<64xi64>, tensor<64xf32>) -> tensor<64x96xf32>
  %h = tessera.cast %g : tensor<64x96xf32> -> tensor<64x96xbf16>
  return %y, %h : tensor<64xf32>, tensor<64x96xbf16>
}

// -----

// Logits that others read, too, are widened once.
// CHECK-LABEL: func.func @cross_entropy_shared(
// CHECK-NEXT: tsched.call @k0_cast(
// CHECK-NEXT: tsched.call @k1_cross_entropy(
func.func @cross_entropy_shared(%x: tensor<64x96xbf16> {tessera.name = "x"}, %n: tensor<64xi64> {tessera.name = "n"})
    -> (tensor<64xf32> {tessera.name = "out"}, tensor<64x96xf32> {tessera.name = "wide"}) attributes {tessera.entry = "infer"} {
  %f = tessera.cast %x : tensor<64x96xbf16> -> tensor<64x96xf32>
  %y = tessera.cross_entropy %f, %n : (tensor<64x96xf32>, tensor<64xi64>) -> tensor<64xf32>
  return %y, %f : tensor<64xf32>, tensor<64x96xf32>
}

// -----

// Logits read once more, their gradient written.
// CHECK-LABEL: func.func @cross_entropy_gradient(
// CHECK: tsched.call @k0_matmul
// CHECK-NEXT: tsched.call @k1_cross_entropy(
// CHECK-NEXT: tsched.call @k2_sum_mul(
// CHECK-NEXT: tsched.call @k3_cross_entropy_grad(
// CHECK-NEXT: tsched.call @k4_matmul{{[a-z_0-9]*}}(
// CHECK-NOT: tsched.call
// CHECK: tsched.func @k3_cross_entropy_grad(
// CHECK-SAME: bytes = 49920 : i64
func.func @cross_entropy_gradient(%x: tensor<64x32xf32> {tessera.data = "x"}, %g: tensor<64x96xf32> {tessera.data = "g"}, %n: tensor<64xi64> {tessera.data = "n"})
    -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<32x96xf32>
  %p = tessera.matmul %x, %w : (tensor<64x32xf32>, tensor<32x96xf32>) -> tensor<64x96xf32>
  %y = tessera.cross_entropy %p, %n : (tensor<64x96xf32>, tensor<64xi64>) -> tensor<64xf32>
  %l = tessera.mean %y {axes = [0]} : tensor<64xf32> -> tensor<f32>
  tessera.minimize %l {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %l : tensor<f32>
}

// -----

// No scores in memory.
// CHECK-LABEL: func.func @attention(
// CHECK-COUNT-1: tsched.call
// CHECK-NOT: tsched.call
// CHECK: tsched.func
// CHECK-SAME: bytes = 16384 : i64
// CHECK-SAME: kind = "attention"
func.func @attention(%q: tensor<1x2x64x8xf32> {tessera.name = "q"}, %k: tensor<1x2x64x8xf32> {tessera.name = "k"}, %v: tensor<1x2x64x8xf32> {tessera.name = "v"})
    -> (tensor<1x2x64x8xf32> {tessera.name = "out"}) attributes {tessera.entry = "infer"} {
  %y = tessera.attention %q, %k, %v {causal} : tensor<1x2x64x8xf32>
  return %y : tensor<1x2x64x8xf32>
}

// -----

// Neither in the gradient: query, key, value, result, its gradient and a number a query are read, three gradients written.
// CHECK-LABEL: func.func @attention_gradient(
// CHECK: tsched.call @k0_attention(
// CHECK-NEXT: tsched.call @k1_sum(
// CHECK-NEXT: tsched.call @k2_attention_grad(
// CHECK: tsched.func @k0_attention(
// CHECK-SAME: bytes = 16896 : i64
// CHECK: tsched.func @k2_attention_grad(
// CHECK-SAME: bytes = 33280 : i64
func.func @attention_gradient() -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %q = tessera.param "q" init = #tessera.constant<0.5> : tensor<1x2x64x8xf32>
  %k = tessera.param "k" init = #tessera.constant<0.5> : tensor<1x2x64x8xf32>
  %v = tessera.param "v" init = #tessera.constant<0.5> : tensor<1x2x64x8xf32>
  %y = tessera.attention %q, %k, %v {causal} : tensor<1x2x64x8xf32>
  %l = tessera.sum %y {axes = [0, 1, 2, 3]} : tensor<1x2x64x8xf32> -> tensor<f32>
  tessera.minimize %l {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %l : tensor<f32>
}

// -----

// What a norm's gradient needs again of a row is one number, not one for each of its elements.
// CHECK-LABEL: func.func @norm_gradient(
// CHECK: tsched.func {{.*}} -> (tensor<64x96xf32>, tensor<64x1xf32>)
// CHECK-SAME: kind = "rows"
// CHECK-NOT: tessera.broadcast
func.func @norm_gradient(%x: tensor<64x32xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<32x96xf32>
  %p = tessera.matmul %x, %w : (tensor<64x32xf32>, tensor<32x96xf32>) -> tensor<64x96xf32>
  %n = tessera.layernorm_safe %p {axes = [1], eps = 1.0e-5} : tensor<64x96xf32>
  %h = tessera.tanh %n : tensor<64x96xf32>
  %y = tessera.matmul %h, %w {transpose_b = true} : (tensor<64x96xf32>, tensor<32x96xf32>) -> tensor<64x32xf32>
  %l = tessera.mean %y {axes = [0, 1]} : tensor<64x32xf32> -> tensor<f32>
  tessera.minimize %l {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %l : tensor<f32>
}

// -----

// Rows of 1 MiB: one kernel where there are enough of them for threads, else four.
// CHECK-LABEL: func.func @long(
// CHECK-COUNT-1: tsched.call
// CHECK-NOT: tsched.call
// CHECK: tsched.func
// CHECK-SAME: kind = "rows"
func.func @long(%x: tensor<32x131072xf32> {tessera.name = "x"})
    -> (tensor<32x131072xf32> {tessera.name = "out"}) attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<32x131072xf32>
  return %y : tensor<32x131072xf32>
}

// -----

// CHECK-LABEL: func.func @few_long(
// CHECK-COUNT-4: tsched.call
func.func @few_long(%x: tensor<31x131072xf32> {tessera.name = "x"})
    -> (tensor<31x131072xf32> {tessera.name = "out"}) attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<31x131072xf32>
  return %y : tensor<31x131072xf32>
}

// -----

// Beyond 8 MiB a row stays in no cache.
// CHECK-LABEL: func.func @longer(
// CHECK-COUNT-4: tsched.call
func.func @longer(%x: tensor<32x1048577xf32> {tessera.name = "x"})
    -> (tensor<32x1048577xf32> {tessera.name = "out"}) attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<32x1048577xf32>
  return %y : tensor<32x1048577xf32>
}

// -----

// Along another dim than the last: columns side by side, and their gradient. A sum that keeps its dim stays a sum.
// CHECK-LABEL: func.func @columns(
// CHECK-COUNT-1: tsched.call
// CHECK-NOT: tsched.call
// CHECK: tsched.func
// CHECK-SAME: bytes = 98304 : i64
// CHECK-SAME: kind = "rows"
func.func @columns(%x: tensor<2x64x96xf32> {tessera.name = "x"})
    -> (tensor<2x64x96xf32> {tessera.name = "out"}) attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<2x64x96xf32>
  return %y : tensor<2x64x96xf32>
}

// -----

// CHECK-LABEL: func.func @columns_gradient(
// CHECK: %[[R:.*]] = tsched.call @[[ROWS:k0_[a-z_0-9]*]](
// CHECK-NEXT: return
// CHECK: tsched.func @[[ROWS]](
// CHECK-SAME: bytes = 147456 : i64
// CHECK-SAME: kind = "rows"
func.func @columns_gradient(%y: tensor<2x64x96xf32> {tessera.name = "y"}, %g: tensor<2x64x96xf32> {tessera.name = "g"})
    -> (tensor<2x64x96xf32> {tessera.name = "out"}) attributes {tessera.entry = "infer"} {
  %p = tessera.mul %y, %g : tensor<2x64x96xf32>
  %s = tessera.sum %p {axes = [1]} : tensor<2x64x96xf32> -> tensor<2x96xf32>
  %r = tessera.reshape %s : tensor<2x96xf32> -> tensor<2x1x96xf32>
  %d = tessera.sub %g, %r : (tensor<2x64x96xf32>, tensor<2x1x96xf32>) -> tensor<2x64x96xf32>
  %z = tessera.mul %d, %y : tensor<2x64x96xf32>
  return %z : tensor<2x64x96xf32>
}

// -----

// CHECK-LABEL: func.func @sum_preserves(
// CHECK: tsched.call @k0_mul_sum(
// CHECK-NEXT: tsched.call @k1_reshape(
// CHECK-NOT: kind = "rows"
func.func @sum_preserves(%x: tensor<2x64x96xf32> {tessera.name = "x"}) -> (tensor<2x1x96xf32> {tessera.name = "out"}) attributes {tessera.entry = "infer"} {
  %q = tessera.mul %x, %x : tensor<2x64x96xf32>
  %s = tessera.sum %q {axes = [1]} : tensor<2x64x96xf32> -> tensor<2x96xf32>
  %r = tessera.reshape %s : tensor<2x96xf32> -> tensor<2x1x96xf32>
  return %r : tensor<2x1x96xf32>
}

// -----

// Rows 8 KiB apart share the sets of a cache: of so many of them it has no room for one line each.
// CHECK-LABEL: func.func @crowded(
// CHECK-NOT: kind = "rows"
func.func @crowded(%x: tensor<2048x2048xf32> {tessera.name = "x"})
    -> (tensor<2048x2048xf32> {tessera.name = "out"}) attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 0 : i64} : tensor<2048x2048xf32>
  return %y : tensor<2048x2048xf32>
}

// -----

// Few columns: whole lines are not filled.
// CHECK-LABEL: func.func @narrow(
// CHECK-NOT: kind = "rows"
func.func @narrow(%x: tensor<2x64x15xf32> {tessera.name = "x"})
    -> (tensor<2x64x15xf32> {tessera.name = "out"}) attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<2x64x15xf32>
  return %y : tensor<2x64x15xf32>
}
