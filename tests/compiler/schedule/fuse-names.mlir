// SPDX-License-Identifier: Apache-2.0
// A group's name gives way to those that are there.
// RUN: tessera-opt -tsched-fuse %s | FileCheck %s

// CHECK: func.func @k0_matmul_add(
// CHECK: tsched.call @k0_matmul_add__(
// CHECK: func.func @k0_matmul_add_(
// CHECK: tsched.call @k1_neg(
// CHECK: tsched.func @k0_matmul_add__(
// CHECK: tsched.func @k1_neg(
func.func @k0_matmul_add(%a: tensor<4x4xf32> {tessera.name = "a"}) -> (tensor<4x4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.matmul %a, %a : tensor<4x4xf32>
  %1 = tessera.add %0, %a : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
func.func @k0_matmul_add_(%a: tensor<4x4xf32> {tessera.name = "a"}) -> (tensor<4x4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = tessera.neg %a : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
