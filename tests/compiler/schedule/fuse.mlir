// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tsched-fuse -split-input-file %s | FileCheck %s

// A chain of elementwise ops is one map; a value that is also returned is a second result.
// CHECK-LABEL: @chain
// CHECK: %[[R:.*]]:2 = tsched.call @k0_exp_add_neg(%arg0, %arg1)
// CHECK-NOT: tsched.call
// CHECK: return %[[R]]#0, %[[R]]#1
// CHECK: tsched.func @k0_exp_add_neg(%[[A:.*]]: tensor<8x4xf32>, %[[B:.*]]: tensor<4xf32>)
// CHECK-SAME: kind = "map", source = "default"
// CHECK-NEXT: %[[E:.*]] = tessera.exp %[[A]]
// CHECK-NEXT: %[[S:.*]] = tessera.add %[[E]], %[[B]]
// CHECK-NEXT: %[[N:.*]] = tessera.neg %[[S]]
// CHECK-NEXT: tsched.return %[[S]], %[[N]]
func.func @chain(%a: tensor<8x4xf32> {tessera.name = "a"}, %b: tensor<4xf32> {tessera.name = "b"})
    -> (tensor<8x4xf32> {tessera.name = "s"}, tensor<8x4xf32> {tessera.name = "n"}) attributes {tessera.entry = "infer"} {
  %e = tessera.exp %a : tensor<8x4xf32>
  %s = tessera.add %e, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %n = tessera.neg %s : tensor<8x4xf32>
  return %s, %n : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// Elementwise ops over the product join the matmul, also those that do not depend on it.
// CHECK-LABEL: @epilogue
// CHECK-NEXT: %[[Y:.*]] = tsched.call @k0_matmul_add_exp_mul_and_1(%arg0, %arg1, %arg2, %arg3)
// CHECK-NEXT: return %[[Y]]
// CHECK: tsched.func
// CHECK-SAME: flops = {{[0-9]+}} : i64, kind = "matmul"
func.func @epilogue(%x: tensor<16x32xf32> {tessera.name = "x"}, %w: tensor<32x8xf32> {tessera.name = "w"},
                    %b: tensor<8xf32> {tessera.name = "b"}, %g: tensor<16x8xf32> {tessera.name = "g"})
    -> (tensor<16x8xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %m = tessera.matmul %x, %w : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  %a = tessera.add %m, %b : (tensor<16x8xf32>, tensor<8xf32>) -> tensor<16x8xf32>
  %e = tessera.exp %g : tensor<16x8xf32>
  %p = tessera.mul %a, %e : tensor<16x8xf32>
  %y = tessera.relu %p : tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

// -----

// What a matmul reads cannot be computed inside it.
// CHECK-LABEL: @no_prologue
// CHECK-NEXT: %[[C:.*]] = tsched.call @k0_cast(%arg0)
// CHECK-NEXT: tsched.call @k1_matmul(%[[C]], %arg1)
func.func @no_prologue(%x: tensor<16x32xui8> {tessera.name = "x"}, %w: tensor<32x8xf32> {tessera.name = "w"})
    -> (tensor<16x8xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %c = tessera.cast %x : tensor<16x32xui8> -> tensor<16x32xf32>
  %m = tessera.matmul %c, %w : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  return %m : tensor<16x8xf32>
}

// -----

// A reduction takes ops before it and after it; the constant comes along.
// CHECK-LABEL: @reduction
// CHECK-NEXT: tsched.call @k0_mul_sum_sqrt(%arg0)
// CHECK-NEXT: return
// CHECK: kind = "reduce"
// CHECK-NEXT: tessera.mul
// CHECK-NEXT: tessera.sum
// CHECK-NEXT: tessera.sqrt
func.func @reduction(%x: tensor<16x32xf32> {tessera.name = "x"}) -> (tensor<16xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %s = tessera.mul %x, %x : tensor<16x32xf32>
  %r = tessera.sum %s {axes = [1]} : tensor<16x32xf32> -> tensor<16xf32>
  %y = tessera.sqrt %r : tensor<16xf32>
  return %y : tensor<16xf32>
}

// -----

// What is needed elsewhere cannot vanish in a reduction's prologue.
// CHECK-LABEL: @parallel_prologue
// CHECK-NEXT: %[[S:.*]] = tsched.call @k0_tanh(%arg0)
// CHECK-NEXT: %[[Y:.*]] = tsched.call @k1_sum(%[[S]])
// CHECK-NEXT: return %[[S]], %[[Y]]
func.func @parallel_prologue(%x: tensor<16x32xf32> {tessera.name = "x"})
    -> (tensor<16x32xf32> {tessera.name = "s"}, tensor<32xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %s = tessera.tanh %x : tensor<16x32xf32>
  %y = tessera.sum %s {axes = [0]} : tensor<16x32xf32> -> tensor<32xf32>
  return %s, %y : tensor<16x32xf32>, tensor<32xf32>
}

// -----

// Over the last dims it can: each row is at hand.
// CHECK-LABEL: @rows
// CHECK-NEXT: %[[R:.*]]:2 = tsched.call @k0_tanh_sum(%arg0)
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1
// CHECK: kind = "rows"
func.func @rows(%x: tensor<16x4x8xf32> {tessera.name = "x"})
    -> (tensor<16x4x8xf32> {tessera.name = "s"}, tensor<16xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %s = tessera.tanh %x : tensor<16x4x8xf32>
  %y = tessera.sum %s {axes = [1, 2]} : tensor<16x4x8xf32> -> tensor<16xf32>
  return %s, %y : tensor<16x4x8xf32>, tensor<16xf32>
}

// -----

// softmax is one kernel.
// CHECK-LABEL: @softmax
// CHECK-NEXT: %[[Y:.*]] = tsched.call @k0_reduce_max_reshape_sub_exp_and_3(%arg0)
// CHECK-NEXT: return %[[Y]]
func.func @softmax(%x: tensor<16x32xf32> {tessera.name = "x"}) -> (tensor<16x32xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %m = tessera.reduce_max %x {axes = [1]} : tensor<16x32xf32> -> tensor<16xf32>
  %mm = tessera.reshape %m : tensor<16xf32> -> tensor<16x1xf32>
  %d = tessera.sub %x, %mm : (tensor<16x32xf32>, tensor<16x1xf32>) -> tensor<16x32xf32>
  %e = tessera.exp %d : tensor<16x32xf32>
  %s = tessera.sum %e {axes = [1]} : tensor<16x32xf32> -> tensor<16xf32>
  %ss = tessera.reshape %s : tensor<16xf32> -> tensor<16x1xf32>
  %y = tessera.div %e, %ss : (tensor<16x32xf32>, tensor<16x1xf32>) -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// -----

// A row that would not stay in cache is gone over by several kernels.
// CHECK-LABEL: @long_rows
// CHECK-NEXT: %[[M:.*]] = tsched.call @k0_reduce_max_reshape(%arg0)
// CHECK-NEXT: tsched.call @k1_sub(%arg0, %[[M]])
func.func @long_rows(%x: tensor<2x100000xf32> {tessera.name = "x"}) -> (tensor<2x100000xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %m = tessera.reduce_max %x {axes = [1]} : tensor<2x100000xf32> -> tensor<2xf32>
  %mm = tessera.reshape %m : tensor<2xf32> -> tensor<2x1xf32>
  %y = tessera.sub %x, %mm : (tensor<2x100000xf32>, tensor<2x1xf32>) -> tensor<2x100000xf32>
  return %y : tensor<2x100000xf32>
}

// -----

// Reductions over other dims do not share rows, nor does a row's value that is read as a column's.
// CHECK-LABEL: @other_dims
// CHECK: tsched.call
// CHECK: tsched.call
// CHECK: tsched.call
func.func @other_dims(%x: tensor<64x64xf32> {tessera.name = "x"})
    -> (tensor<64xf32> {tessera.name = "a"}, tensor<64x64xf32> {tessera.name = "b"}) attributes {tessera.entry = "infer"} {
  %e = tessera.exp %x : tensor<64x64xf32>
  %c = tessera.sum %e {axes = [0]} : tensor<64x64xf32> -> tensor<64xf32>
  %r = tessera.sum %e {axes = [1]} : tensor<64x64xf32> -> tensor<64xf32>
  %b = tessera.mul %e, %r : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  return %c, %b : tensor<64xf32>, tensor<64x64xf32>
}

// -----

// Equal groups of two entries are one function; a group is named by its first use.
// CHECK-LABEL: @one
// CHECK: tsched.call @k0_exp
// CHECK-LABEL: @two
// CHECK: tsched.call @k0_exp
// CHECK: tsched.func @k0_exp
// CHECK-NOT: tsched.func
func.func @one(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @two(%z: tensor<4xf32> {tessera.name = "z"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.exp %z : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A constant that a kernel reads whole stays in the entry and gets a name; inside a map it is free.
// CHECK-LABEL: @constants
// CHECK: %[[C:.*]] = tessera.constant dense<2.000000e+00> : tensor<8x4xf32> {tessera.tensor = "constant.8x4xf32.{{[0-9a-f]+}}"}
// CHECK: tsched.call @{{.*}}matmul{{.*}}(%arg0, %[[C]])
// CHECK: tsched.func
// CHECK: tessera.constant dense<3.000000e+00> : tensor<f32>
func.func @constants(%x: tensor<16x8xf32> {tessera.name = "x"}) -> (tensor<16x4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %two = tessera.constant dense<2.0> : tensor<8x4xf32>
  %three = tessera.constant dense<3.0> : tensor<f32>
  %m = tessera.matmul %x, %two : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %y = tessera.mul %m, %three : (tensor<16x4xf32>, tensor<f32>) -> tensor<16x4xf32>
  return %y : tensor<16x4xf32>
}

// -----

// Nothing that is not needed is computed; an entry that computes nothing has no calls.
// CHECK-LABEL: @nothing
// CHECK-NEXT: return %arg0
// CHECK-NOT: tsched.func
func.func @nothing(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %dead = tessera.exp %x : tensor<4xf32>
  return %x : tensor<4xf32>
}

// -----

// What a kernel made is read in another shape where it lies; arguments and results are copied.
// CHECK-LABEL: @views
// CHECK-NEXT: %[[A:.*]] = tsched.call @k0_reshape(%arg0)
// CHECK-NEXT: %[[P:.*]] = tsched.call @k1_matmul(%[[A]], %arg1)
// CHECK-NEXT: %[[R:.*]] = tessera.reshape %[[P]]
// CHECK-NEXT: %[[Q:.*]] = tsched.call @k2_matmul(%[[R]], %arg1)
// CHECK-NEXT: %[[Y:.*]] = tsched.call @k3_reshape(%[[Q]])
// CHECK-NEXT: return %[[Y]]
func.func @views(%x: tensor<48xf32> {tessera.name = "x"}, %w: tensor<8x4xf32> {tessera.name = "w"})
    -> (tensor<12xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %a = tessera.reshape %x : tensor<48xf32> -> tensor<6x8xf32>
  %p = tessera.matmul %a, %w : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %r = tessera.reshape %p : tensor<6x4xf32> -> tensor<3x8xf32>
  %q = tessera.matmul %r, %w : (tensor<3x8xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
  %y = tessera.reshape %q : tensor<3x4xf32> -> tensor<12xf32>
  return %y : tensor<12xf32>
}
