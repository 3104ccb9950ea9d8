// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt -split-input-file --no-output %s 2>&1 | FileCheck %s

// CHECK: [[@LINE+1]]:1: error: [TSR-0413] tsched.func: kind is "map"; its ops make it "matmul"
tsched.func @kind(%a: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {kind = "map"} {
  %0 = tessera.matmul %a, %a : tensor<4x4xf32>
  tsched.return %0 : tensor<4x4xf32>
}

// -----

tsched.func @two_roots(%a: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {kind = "matmul"} {
  %0 = tessera.matmul %a, %a : tensor<4x4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0410] tessera.matmul: a fusion group has at most one op that is not elementwise
  %1 = tessera.matmul %0, %a : tensor<4x4xf32>
  tsched.return %1 : tensor<4x4xf32>
}

// -----

tsched.func @prologue(%a: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {kind = "matmul"} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0410] tessera.exp: only a reduction takes elementwise ops before it
  %0 = tessera.exp %a : tensor<4x4xf32>
  %1 = tessera.matmul %0, %a : tensor<4x4xf32>
  tsched.return %1 : tensor<4x4xf32>
}

// -----

tsched.func @shapes(%a: tensor<4x4xf32>, %b: tensor<2xf32>) -> (tensor<4x4xf32>, tensor<2xf32>) attributes {kind = "map"} {
  %0 = tessera.exp %a : tensor<4x4xf32>
  %1 = tessera.exp %b : tensor<2xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0412] tsched.return: all outputs of a group must have the same shape
  tsched.return %0, %1 : tensor<4x4xf32>, tensor<2xf32>
}

// -----

tsched.func @vanished(%a: tensor<4x4xf32>) -> tensor<4xf32> attributes {kind = "reduce"} {
  %0 = tessera.exp %a : tensor<4x4xf32>
  %1 = tessera.sum %0 {axes = [0]} : tensor<4x4xf32> -> tensor<4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0412] tessera.add: reads a value that exists only before the reduction
  %2 = tessera.add %0, %1 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %3 = tessera.neg %1 : tensor<4xf32>
  tsched.return %3 : tensor<4xf32>
}

// -----

tsched.func @around(%a: tensor<4x4xf32>, %l: tensor<4xi64>) -> tensor<4xf32> attributes {kind = "cross_entropy"} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0410] tessera.neg: is not a cast of an operand or result of the op that must be alone in its group
  %0 = tessera.neg %a : tensor<4x4xf32>
  %1 = tessera.cross_entropy %0, %l : (tensor<4x4xf32>, tensor<4xi64>) -> tensor<4xf32>
  tsched.return %1 : tensor<4xf32>
}

// -----

tsched.func @alone(%a: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {kind = "map"} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0410] tessera.transpose: must be alone in its group
  %0 = tessera.transpose %a {permutation = [1, 0]} : tensor<4x4xf32>
  %1 = tessera.exp %0 : tensor<4x4xf32>
  tsched.return %1 : tensor<4x4xf32>
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0415] tsched.func: a tile size is below 0
tsched.func @tile(%a: tensor<4xf32>) -> tensor<4xf32> attributes {kind = "map", tile = [4, -1]} {
  %0 = tessera.exp %a : tensor<4xf32>
  tsched.return %0 : tensor<4xf32>
}

// -----

tsched.func @passed(%a: tensor<4xf32>) -> tensor<4xf32> attributes {kind = "map"} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0411] tsched.return: an input cannot be an output
  tsched.return %a : tensor<4xf32>
}

// -----

tsched.func @constant(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) attributes {kind = "rows"} {
  %0 = tessera.mul %a, %a : tensor<2xf32>
  %1 = tessera.sum %0 {axes = [0]} : tensor<2xf32> -> tensor<f32>
  %2 = tessera.constant dense<0.0> : tensor<f32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0411] tsched.return: a constant cannot be an output of a group of kind "rows"
  tsched.return %0, %2 : tensor<2xf32>, tensor<f32>
}

// -----

func.func @absent(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0414] tsched.call: there is no such tsched.func
  %0 = tsched.call @nowhere(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

tsched.func @group(%a: tensor<4xf32>) -> tensor<4xf32> attributes {kind = "map", source = "autotune", tile = [2, 4]} {
  %0 = tessera.exp %a : tensor<4xf32>
  tsched.return %0 : tensor<4xf32>
}
func.func @types(%a: tensor<5xf32>) -> tensor<5xf32> {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0414] tsched.call: the types differ from the group's
  %0 = tsched.call @group(%a) : (tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0413] tsched.func: its ops do not form a rows group
tsched.func @other_axes(%a: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {kind = "rows"} {
  %0 = tessera.reduce_max %a {axes = [0]} : tensor<4x4xf32> -> tensor<4xf32>
  %1 = tessera.sum %a {axes = [1]} : tensor<4x4xf32> -> tensor<4xf32>
  tsched.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A sum over rows is there when all rows have been gone over.
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0413] tsched.func: its ops do not form a rows group
tsched.func @summed_and_read(%a: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4x4xf32>) attributes {kind = "rows"} {
  %0 = tessera.sum %a {axes = [0]} : tensor<4x4xf32> -> tensor<4xf32>
  %1 = tessera.sum %a {axes = [1]} : tensor<4x4xf32> -> tensor<4xf32>
  %2 = tessera.sub %a, %0 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  tsched.return %1, %2 : tensor<4xf32>, tensor<4x4xf32>
}

// -----

tsched.func @no_rows(%a: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {kind = "rows"} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0410] tessera.matmul: is not allowed in a rows group
  %0 = tessera.matmul %a, %a : tensor<4x4xf32>
  tsched.return %0 : tensor<4x4xf32>
}

// -----

// A row's value is read as one of the last dim.
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0413] tsched.func: its ops do not form a rows group
tsched.func @crossed(%a: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {kind = "rows"} {
  %0 = tessera.sum %a {axes = [1]} : tensor<4x4xf32> -> tensor<4xf32>
  %1 = tessera.sub %a, %0 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  tsched.return %1 : tensor<4x4xf32>
}

// -----

// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0413] tsched.func: kind is "rows"; its ops make it "map"
tsched.func @reduces_nothing(%a: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {kind = "rows"} {
  %0 = tessera.exp %a : tensor<4x4xf32>
  tsched.return %0 : tensor<4x4xf32>
}

// -----

tsched.func @strips(%a: tensor<4x20xf32>) -> tensor<3x4x16xf32> attributes {kind = "pack"} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0412] tsched.pack: its types do not match: expected a matrix and its strips
  %0 = tsched.pack %a : tensor<4x20xf32> -> tensor<3x4x16xf32>
  tsched.return %0 : tensor<3x4x16xf32>
}

// -----

tsched.func @transposed(%a: tensor<4x4xf32>, %p: tensor<2x4x16xf32>) -> tensor<4x20xf32> attributes {kind = "matmul"} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0410] tsched.unpack: may only be the second operand of a product, not transposed
  %0 = tsched.unpack %p : tensor<2x4x16xf32> -> tensor<20x4xf32>
  %1 = tessera.matmul %a, %0 {transpose_b = true} : (tensor<4x4xf32>, tensor<20x4xf32>) -> tensor<4x20xf32>
  tsched.return %1 : tensor<4x20xf32>
}

// -----

tsched.func @moved_back(%a: tensor<4x4xf32>, %p: tensor<1x4x16xf32>) -> tensor<4x4xf32> attributes {kind = "matmul"} {
  %0 = tsched.unpack %p : tensor<1x4x16xf32> -> tensor<4x4xf32>
  %1 = tessera.matmul %a, %0 : tensor<4x4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0410] tessera.add: reads strips or views of them; only a product can
  %2 = tessera.add %1, %0 : tensor<4x4xf32>
  tsched.return %2 : tensor<4x4xf32>
}

// -----

tsched.func @of_groups(%a: tensor<1x4x4x8xf32>, %p: tensor<1x36x16xf32>) -> tensor<1x2x2x16xf32> attributes {kind = "conv2d"} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0410] tsched.unpack: may only be the second operand of a product, not transposed
  %0 = tsched.unpack %p : tensor<1x36x16xf32> -> tensor<3x3x4x16xf32>
  %1 = tessera.conv2d %a, %0 {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], groups = 2} : (tensor<1x4x4x8xf32>, tensor<3x3x4x16xf32>) -> tensor<1x2x2x16xf32>
  tsched.return %1 : tensor<1x2x2x16xf32>
}

// -----

tsched.func @of_a_batch(%a: tensor<2x4x4xf32>, %p: tensor<1x8x16xf32>) -> tensor<2x4x16xf32> attributes {kind = "matmul"} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0410] tsched.unpack: may only be the second operand of a product, not transposed
  %0 = tsched.unpack %p : tensor<1x8x16xf32> -> tensor<2x4x16xf32>
  %1 = tessera.matmul %a, %0 : (tensor<2x4x4xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  tsched.return %1 : tensor<2x4x16xf32>
}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0411] tsched.func: a fusion group needs at least one output
tsched.func @f(%a: tensor<4xf32>) attributes {kind = "map"} {
  %0 = tessera.exp %a : tensor<4xf32>
  tsched.return
}

// -----
tsched.func @f(%a: tensor<4xf32>) -> tensor<4xf32> attributes {kind = "map"} {
  %0 = tessera.exp %a : tensor<4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0411] tsched.return: returns another number of values than the function declares
  tsched.return %0, %0 : tensor<4xf32>, tensor<4xf32>
}

// -----
tsched.func @f(%a: tensor<4xf32>, %b: tensor<3xf32>) -> tensor<4xf32> attributes {kind = "map"} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0412] tessera.exp: its shape does not broadcast to the group's shape
  %0 = tessera.exp %b : tensor<3xf32>
  %1 = tessera.exp %a : tensor<4xf32>
  tsched.return %1 : tensor<4xf32>
}

// -----
tsched.func @f(%a: tensor<4x4xf32>, %b: tensor<8x4x4xf32>) -> tensor<8x4x4xf32> attributes {kind = "matmul"} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0412] tessera.matmul: its result has another shape than the group's outputs
  %0 = tessera.matmul %a, %a : tensor<4x4xf32>
  %1 = tessera.add %0, %b : (tensor<4x4xf32>, tensor<8x4x4xf32>) -> tensor<8x4x4xf32>
  tsched.return %1 : tensor<8x4x4xf32>
}

// -----
tsched.func @f(%a: tensor<4xf32>) -> tensor<1x4x16xf32> attributes {kind = "pack"} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0412] tsched.pack: expected a matrix
  %0 = tsched.pack %a : tensor<4xf32> -> tensor<1x4x16xf32>
  tsched.return %0 : tensor<1x4x16xf32>
}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0415] tsched.func: tile must be an array of at most 8 integers
tsched.func @f(%a: tensor<4xf32>) -> tensor<4xf32> attributes {kind = "map", tile = [1, 2, 3, 4, 5, 6, 7, 8, 9]} {
  %0 = tessera.exp %a : tensor<4xf32>
  tsched.return %0 : tensor<4xf32>
}

// -----
tile.func @k(%x: memref<4xf32>) grid 1 attributes {outputs = 1 : i64} {
  tile.return
}
func.func @f(%a: tensor<4xf32>) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0414] tsched.call: the kernel has another number of inputs or outputs
  %0 = tsched.call @k(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
tile.func @k(%x: memref<4xf32>, %y: memref<5xf32>) grid 1 attributes {outputs = 1 : i64} {
  tile.return
}
func.func @f(%a: tensor<4xf32>) {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0414] tsched.call: the types differ from the kernel's
  %0 = tsched.call @k(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----
tsched.func @f(%a: tensor<4x4xf32>) -> tensor<?x4xf32> attributes {kind = "matmul"} {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0416] tessera.matmul: the result must be a static tensor of a known element type
  %0 = tessera.matmul %a, %a : tensor<4x4xf32> -> tensor<?x4xf32>
  tsched.return %0 : tensor<?x4xf32>
}

// -----
tsched.func @f(%q: tensor<1x2x8x4xf32>, %l: tensor<1x2x8xf32>) -> (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) attributes {kind = "attention_grad"} {
  %0:3 = tessera.attention_grad %q, %q, %q, %q, %l, %q {causal} : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8xf32>, tensor<1x2x8x4xf32>) -> (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>)
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0411] tsched.return: does not return the results of its op in order
  tsched.return %0#1, %0#0, %0#2 : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>
}
