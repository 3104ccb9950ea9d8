// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-verify --no-output %examples/digits/digits.mlir
// RUN: not tessera-opt -tessera-verify --no-output -split-input-file %s 2>&1 | FileCheck %s

// CHECK: [[@LINE+1]]:1: error: [TSR-0219] func.func: '@external' has no body
func.func private @external()

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0220] func.func: '@jumps' has several blocks; programs are straight-line
func.func @jumps() {
  "cf.br"()[^next] : () -> ()
^next:
  return
}

// -----

func.func @foreign() {
  // CHECK: [[@LINE+1]]:8: error: [TSR-0207] arith.constant: functions hold only tessera ops, func.call and func.return
  %0 = arith.constant 1.0 : f32
  return
}

// -----

func.func private @f() {
  return
}
// CHECK: [[@LINE+1]]:1: error: [TSR-0222] builtin.module: a program holds only functions
module {
}

// -----

func.func @f() {
  // CHECK: [[@LINE+1]]:8: error: [TSR-0201] tessera.param: needs a name of 1 to 255 bytes
  %0 = "tessera.param"() : () -> tensor<2xf32>
  // CHECK: [[@LINE+1]]:8: error: [TSR-0223] tessera.param: 'odd' needs a ranked tensor of at most 8 dims, whose elements are f64,
  %1 = tessera.param "odd" : tensor<2xi24>
  // CHECK: [[@LINE+1]]:8: error: [TSR-0223] tessera.param: 'unranked' needs a ranked tensor
  %2 = tessera.param "unranked" : tensor<*xf32>
  // CHECK: [[@LINE+1]]:8: error: [TSR-0110] tessera.param: dims of 'open' must be known, has 2x?xf32
  %3 = tessera.param "open" : tensor<2x?xf32>
  // CHECK: [[@LINE+1]]:8: error: [TSR-0203] tessera.param: 'bare' needs an init rule or data
  %4 = tessera.param "bare" : tensor<2xf32>
  // CHECK: [[@LINE+1]]:8: error: [TSR-0203] tessera.opt.state: 's' needs an init rule
  %5 = tessera.opt.state "s" of "w" kind "k" : tensor<2xf32>
  // CHECK: [[@LINE+1]]:8: error: [TSR-0225] tessera.opt.state: 't' needs `of` and `kind`
  %6 = tessera.opt.state "t" init = #tessera.constant<0.0> : tensor<2xf32>
  return
}

// -----

func.func @f() {
  %0 = tessera.param "w" init = #tessera.constant<0.0> : tensor<2xf32>
  return
}
func.func @g() {
  // CHECK: [[@LINE+2]]:8: error: [TSR-0202] tessera.param: 'w' is declared in two ways
  // CHECK: [[@LINE-5]]:8: note: declared first here
  %0 = tessera.param "w" init = #tessera.constant<1.0> : tensor<2xf32>
  return
}

// -----

func.func @f() {
  // CHECK: [[@LINE+1]]:8: error: [TSR-0225] tessera.opt.state: 'w.m' is state of 'w', but no entry reads a parameter of that name
  %0 = tessera.opt.state "w.m" of "w" kind "adam_m" init = #tessera.constant<0.0> : tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32> {tessera.name = "x"}) attributes {tessera.entry = "train"} {
  %0 = tessera.param "w" init = #tessera.constant<0.0> : tensor<2xf32>
  // CHECK: [[@LINE+1]]:3: error: [TSR-0205] tessera.assign: nothing in the program reads a tensor 'v'
  tessera.assign %x to "v" : tensor<3xf32>
  // CHECK: [[@LINE+1]]:3: error: [TSR-0206] tessera.assign: the value is 3xf32, 'w' is 2xf32
  tessera.assign %x to "w" : tensor<3xf32>
  // CHECK: [[@LINE-5]]:8: note: declared here
  return
}

// -----

func.func @f() attributes {tessera.entry = "train"} {
  %0 = tessera.param "w" init = #tessera.constant<0.0> : tensor<2xf32>
  tessera.assign %0 to "w" : tensor<2xf32>
  // CHECK: [[@LINE+2]]:3: error: [TSR-0213] tessera.assign: 'w' already has a next value
  // CHECK: [[@LINE-2]]:3: note: assigned here
  tessera.assign %0 to "w" : tensor<2xf32>
  return
}

// -----

func.func @f() attributes {tessera.entry = "infer"} {
  %0 = tessera.param "w" init = #tessera.constant<0.0> : tensor<2xf32>
  // CHECK: [[@LINE+1]]:3: error: [TSR-0214] tessera.assign: only a train entry can change tensors; '@f' is "infer"
  tessera.assign %0 to "w" : tensor<2xf32>
  return
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0204] entry '@f': tessera.entry is "learn", must be "train", "eval" or "infer"
func.func @f() attributes {tessera.entry = "learn"} {
  return
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0204] entry '@f': tessera.entry is no string, must be "train", "eval" or "infer"
func.func @f() attributes {tessera.entry = 3} {
  return
}

// -----

// What stands before a NUL would be another name.
// CHECK: [[@LINE+1]]:1: error: [TSR-0216] entry '@f': argument 0 needs a name of 1 to 255 bytes of printable UTF-8
func.func @f(%x: tensor<2xf32> {tessera.name = "x\00y"}) attributes {tessera.entry = "infer"} {
  return
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0201] entry '@': needs a name of 1 to 255 bytes of printable UTF-8
func.func @"a\00b"() attributes {tessera.entry = "infer"} {
  return
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0223] entry '@f': argument 0 has the type memref<2xf32>; expected a ranked tensor without an encoding
func.func @f(%x: memref<2xf32> {tessera.name = "x"}) attributes {tessera.entry = "infer"} {
  return
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0223] entry '@f': argument 0 has the type vector<2xf32>; expected a ranked tensor without an encoding
func.func @f(%x: vector<2xf32> {tessera.name = "x"}) attributes {tessera.entry = "infer"} {
  return
}

// -----

// An encoding would say that elements lie otherwise.
// CHECK: [[@LINE+1]]:1: error: [TSR-0223] entry '@f': argument 0 has the type tensor<2xf32, "sparse">; expected a ranked tensor without an encoding
func.func @f(%x: tensor<2xf32, "sparse"> {tessera.name = "x"}) attributes {tessera.entry = "infer"} {
  return
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0209] entry '@f': argument 0 needs one of the attributes tessera.data and tessera.name
func.func @f(%x: tensor<2xf32>) attributes {tessera.entry = "infer"} {
  return
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0209] entry '@f': argument 0 needs one of the attributes tessera.data and tessera.name
func.func @f(%x: tensor<2xf32> {tessera.name = "x", tessera.data = "x"}) attributes {tessera.entry = "infer"} {
  return
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0209] entry '@f': result 0 needs the attribute tessera.name
func.func @f(%x: tensor<2xf32> {tessera.name = "x"}) -> tensor<2xf32> attributes {tessera.entry = "infer"} {
  return %x : tensor<2xf32>
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0217] entry '@f': argument 1 has the name of an earlier one
func.func @f(%x: tensor<2xf32> {tessera.name = "x"}, %y: tensor<2xf32> {tessera.data = "x"}) attributes {tessera.entry = "infer"} {
  return
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0216] entry '@f': argument 0 needs a name of 1 to 255 bytes of printable UTF-8
func.func @f(%x: tensor<2xf32> {tessera.name = ""}) attributes {tessera.entry = "infer"} {
  return
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0215] entry '@f': 'a' has 4 rows, 'b' has 5
func.func @f(%x: tensor<4x2xf32> {tessera.data = "a"}, %y: tensor<5xi64> {tessera.data = "b"}) attributes {tessera.entry = "train"} {
  return
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0215] entry '@f': 'y' is a scalar, but must have one row per sample
func.func @f(%x: tensor<4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "eval"} {
  %0 = tessera.sum %x {axes = [0]} : tensor<4xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @f(%c: tensor<i1> {tessera.name = "c"}) attributes {tessera.entry = "train"} {
  %p = tessera.param "w" init = #tessera.constant<0.0> : tensor<4xf32>
  %0 = tessera.if %c {
    // CHECK: error: [TSR-0221] tessera.assign: is not allowed in a region of tessera.if
    tessera.assign %p to "w" : tensor<4xf32>
    tessera.yield %p : tensor<4xf32>
  } else {
    // CHECK: error: [TSR-0207] arith.constant: functions hold only tessera ops, func.call and func.return
    %1 = arith.constant 1.0 : f32
    tessera.yield %p : tensor<4xf32>
  } : tensor<i1> -> tensor<4xf32>
  return
}

// -----

// Tensors of regions are the program's, as others are.
func.func @f(%c: tensor<i1> {tessera.name = "c"}) attributes {tessera.entry = "train"} {
  tessera.schedule.checkpoint {
    // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0203] tessera.param: 'w' needs an init rule or data
    %w = tessera.param "w" : tensor<4xf32>
  }
  return
}

// -----

func.func @f(%c: tensor<i1> {tessera.name = "c"}) attributes {tessera.entry = "train"} {
  tessera.schedule.checkpoint {
    %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<4xf32>
  }
  %t = tessera.resilience.region {
    // CHECK: [[@LINE+2]]:{{.*}} error: [TSR-0202] tessera.param: 'w' is declared in two ways
    // CHECK: [[@LINE-4]]:{{.*}} note: declared first here
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<4xf32>
    // CHECK: error: [TSR-0205] tessera.assign: nothing in the program reads a tensor 'v'
    tessera.assign %w to "v" : tensor<4xf32>
  } : !tessera_sr.token
  return
}

// -----

func.func @f(%x: tensor<f32> {tessera.name = "x"}) attributes {tessera.entry = "train"} {
  %p = tessera.param "w" init = #tessera.constant<0.0> : tensor<f32>
  %y, %g = tessera.vjp %x, %p {
  ^bb0(%a: tensor<f32>):
    %0 = tessera.mul %a, %p : tensor<f32>
    // CHECK: error: [TSR-0221] tessera.minimize: is not allowed in a region of tessera.vjp
    tessera.minimize %0 {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    tessera.yield %0 : tensor<f32>
  } : tensor<f32> -> (tensor<f32>, tensor<f32>)
  %z = tessera.custom_derivative %x {
  ^bb0(%a: tensor<f32>):
    tessera.yield %a : tensor<f32>
  } vjp {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>):
    // CHECK: error: [TSR-0221] tessera.assign: is not allowed in a region of tessera.custom_derivative
    tessera.assign %c to "w" : tensor<f32>
    // CHECK: error: [TSR-0207] arith.constant: functions hold only tessera ops, func.call and func.return
    %1 = arith.constant 1.0 : f32
    tessera.yield %c : tensor<f32>
  } : tensor<f32> -> tensor<f32>
  return
}

// -----

// What a function changes that is called in a region, or that one calls which is.
func.func private @assigns(%x: tensor<f32>) -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<f32>
  %y = tessera.mul %x, %w : tensor<f32>
  tessera.assign %y to "w" : tensor<f32>
  return %y : tensor<f32>
}

func.func private @calls(%x: tensor<f32>) -> tensor<f32> {
  %y = func.call @assigns(%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

func.func @f(%x: tensor<f32> {tessera.name = "x"}) attributes {tessera.entry = "train"} {
  %c = tessera.compare lt %x, %x : tensor<f32> -> tensor<i1>
  %i = tessera.if %c {
    // CHECK: [[@LINE+3]]:10: error: [TSR-0221] func.call: is not allowed in a region of tessera.if: '@calls' leads to a tessera.assign
    // CHECK: note: tessera.assign to 'w' in '@assigns'
    // CHECK: note: the tessera.if around the call
    %1 = func.call @calls(%x) : (tensor<f32>) -> tensor<f32>
    tessera.yield %1 : tensor<f32>
  } else {
    // CHECK: [[@LINE+1]]:10: error: [TSR-0221] func.call: is not allowed in a region of tessera.if: '@assigns' leads to a tessera.assign
    %1 = func.call @assigns(%x) : (tensor<f32>) -> tensor<f32>
    tessera.yield %1 : tensor<f32>
  } : tensor<i1> -> tensor<f32>
  %k = tessera.while %x {
  ^bb0(%a: tensor<f32>):
    // CHECK: [[@LINE+1]]:10: error: [TSR-0221] func.call: is not allowed in a region of tessera.while: '@assigns' leads to a tessera.assign
    %0 = func.call @assigns(%a) : (tensor<f32>) -> tensor<f32>
    tessera.yield %c : tensor<i1>
  } do {
  ^bb0(%a: tensor<f32>):
    // CHECK: [[@LINE+1]]:10: error: [TSR-0221] func.call: is not allowed in a region of tessera.while: '@assigns' leads to a tessera.assign
    %0 = func.call @assigns(%a) : (tensor<f32>) -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } {limit = 1 : i64} : tensor<f32> -> tensor<f32>
  %s0 = tessera.scan %x {
  ^bb0(%a: tensor<f32>):
    // CHECK: [[@LINE+1]]:10: error: [TSR-0221] func.call: is not allowed in a region of tessera.scan: '@assigns' leads to a tessera.assign
    %0 = func.call @assigns(%a) : (tensor<f32>) -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } {carried = 1 : i64, length = 1 : i64} : tensor<f32> -> tensor<f32>
  %s1 = tessera.scan %x {
  ^bb0(%a: tensor<f32>):
    // CHECK: [[@LINE+1]]:10: error: [TSR-0221] func.call: is not allowed in a region of tessera.scan: '@assigns' leads to a tessera.assign
    %0 = func.call @assigns(%a) : (tensor<f32>) -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } {carried = 1 : i64, length = 3 : i64} : tensor<f32> -> tensor<f32>
  %s2 = tessera.scan %x {
  ^bb0(%a: tensor<f32>):
    // CHECK: [[@LINE+1]]:10: error: [TSR-0221] func.call: is not allowed in a region of tessera.scan: '@assigns' leads to a tessera.assign
    %0 = func.call @assigns(%a) : (tensor<f32>) -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } {carried = 1 : i64, length = 300 : i64} : tensor<f32> -> tensor<f32>
  %jvp, %djvp = tessera.jvp %x, %x {
  ^bb0(%a: tensor<f32>):
    // CHECK: [[@LINE+1]]:10: error: [TSR-0221] func.call: is not allowed in a region of tessera.jvp: '@assigns' leads to a tessera.assign
    %0 = func.call @assigns(%a) : (tensor<f32>) -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } : tensor<f32> -> (tensor<f32>, tensor<f32>)
  %vjp, %dvjp = tessera.vjp %x, %x {
  ^bb0(%a: tensor<f32>):
    // CHECK: [[@LINE+1]]:10: error: [TSR-0221] func.call: is not allowed in a region of tessera.vjp: '@assigns' leads to a tessera.assign
    %0 = func.call @assigns(%a) : (tensor<f32>) -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } : tensor<f32> -> (tensor<f32>, tensor<f32>)
  %z = tessera.custom_derivative %x {
  ^bb0(%a: tensor<f32>):
    // CHECK: [[@LINE+1]]:10: error: [TSR-0221] func.call: is not allowed in a region of tessera.custom_derivative: '@assigns' leads to a tessera.assign
    %0 = func.call @assigns(%a) : (tensor<f32>) -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } vjp {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %g: tensor<f32>):
    // CHECK: [[@LINE+1]]:10: error: [TSR-0221] func.call: is not allowed in a region of tessera.custom_derivative: '@assigns' leads to a tessera.assign
    %0 = func.call @assigns(%a) : (tensor<f32>) -> tensor<f32>
    tessera.yield %0 : tensor<f32>
  } : tensor<f32> -> tensor<f32>
  return
}

// -----

func.func private @trains(%x: tensor<f32>) -> tensor<f32> {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<f32>
  %y = tessera.mul %x, %w : tensor<f32>
  tessera.minimize %y {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %y : tensor<f32>
}

// A region that only marks ops leaves what is around it in force.
func.func @f(%x: tensor<f32> {tessera.name = "x"}) attributes {tessera.entry = "train"} {
  %y, %d = tessera.jvp %x, %x {
  ^bb0(%a: tensor<f32>):
    %0 = tessera.schedule.checkpoint {
      // CHECK: [[@LINE+3]]:12: error: [TSR-0221] func.call: is not allowed in a region of tessera.jvp: '@trains' leads to a tessera.minimize
      // CHECK: note: tessera.minimize in '@trains'
      // CHECK: note: the tessera.jvp around the call
      %1 = func.call @trains(%a) : (tensor<f32>) -> tensor<f32>
      tessera.yield %1 : tensor<f32>
    } : tensor<f32>
    tessera.yield %0 : tensor<f32>
  } : tensor<f32> -> (tensor<f32>, tensor<f32>)
  return
}

// -----

// The same of an op.
func.func @f(%x: tensor<f32> {tessera.name = "x"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.constant<0.5> : tensor<f32>
  %y, %d = tessera.jvp %x, %x {
  ^bb0(%a: tensor<f32>):
    %t, %0 = tessera.resilience.region {
      // CHECK: error: [TSR-0221] tessera.assign: is not allowed in a region of tessera.jvp
      tessera.assign %a to "w" : tensor<f32>
      tessera.yield %a : tensor<f32>
    } : !tessera_sr.token, tensor<f32>
    tessera.yield %0 : tensor<f32>
  } : tensor<f32> -> (tensor<f32>, tensor<f32>)
  return
}
