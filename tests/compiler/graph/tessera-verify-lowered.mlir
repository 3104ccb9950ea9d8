// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-graph %examples/digits/digits.mlir | tessera-opt -tessera-verify-lowered --no-output
// RUN: not tessera-opt -tessera-verify-lowered --no-output -split-input-file %s 2>&1 | FileCheck %s

// CHECK: [[@LINE+1]]:1: error: [TSR-0309] func.func: only entries may be left
func.func private @helper() {
  return
}

// -----

func.func @f(%x: tensor<2xf32> {tessera.name = "x"}) attributes {tessera.entry = "infer"} {
  // CHECK: [[@LINE+1]]:8: error: [TSR-0309] tessera.mean: must not exist after lowering
  %0 = tessera.mean %x {axes = [0]} : tensor<2xf32> -> tensor<f32>
  return
}

// -----

// CHECK: [[@LINE+1]]:1: error: [TSR-0110] func.func: argument 0 is ?xf32; every dim must be known here
func.func @f(%x: tensor<?xf32> {tessera.name = "x"}) attributes {tessera.entry = "infer"} {
  // CHECK: [[@LINE+1]]:8: error: [TSR-0110] tessera.exp: operand 0 is ?xf32; every dim must be known here
  %0 = tessera.exp %x : tensor<?xf32>
  return
}

// -----

func.func @f(%x: tensor<2xbf16> {tessera.name = "x"}) -> (tensor<2xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  // CHECK: [[@LINE+1]]:8: error: [TSR-0309] tessera.exp: has a value of 2xbf16; f32 is needed after lowering
  %0 = tessera.exp %x : tensor<2xbf16>
  return %0 : tensor<2xbf16>
}
