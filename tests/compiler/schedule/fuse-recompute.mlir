// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tsched-fuse -split-input-file %s | FileCheck %s

// Cheap work on a small tensor is done again in each kernel that needs it: no launch of its own.
// CHECK-LABEL: @cheap
// CHECK-NEXT: tsched.call @k0_add_matmul_add(%arg3, %arg0, %arg1)
// CHECK-NEXT: tsched.call @k1_add_matmul_sub(%arg3, %arg0, %arg2)
// CHECK-NEXT: return
// CHECK: tsched.func
// CHECK: tessera.add {{.*}} tensor<8xf32>
// CHECK: tsched.func
// CHECK: tessera.add {{.*}} tensor<8xf32>
func.func @cheap(%x: tensor<16x32xf32> {tessera.name = "x"}, %w: tensor<32x8xf32> {tessera.name = "w"},
                 %v: tensor<32x8xf32> {tessera.name = "v"}, %b: tensor<8xf32> {tessera.name = "b"})
    -> (tensor<16x8xf32> {tessera.name = "y"}, tensor<16x8xf32> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %two = tessera.add %b, %b : tensor<8xf32>
  %m = tessera.matmul %x, %w : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  %n = tessera.matmul %x, %v : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  %y = tessera.add %m, %two : (tensor<16x8xf32>, tensor<8xf32>) -> tensor<16x8xf32>
  %z = tessera.sub %n, %two : (tensor<16x8xf32>, tensor<8xf32>) -> tensor<16x8xf32>
  return %y, %z : tensor<16x8xf32>, tensor<16x8xf32>
}

// -----

// A power is dear: computed once, by a kernel of its own, not per element of the large tensors.
// CHECK-LABEL: @dear
// CHECK: %[[P:.*]] = tsched.call @k0_ipow_sub(%{{.*}}) : (tensor<i64>) -> tensor<f32>
// CHECK-DAG: tsched.call @k{{.}}_mul({{.*}}%[[P]]{{.*}})
// CHECK-DAG: tsched.call @k{{.}}_mul({{.*}}%[[P]]{{.*}})
func.func @dear(%x: tensor<128x32xf32> {tessera.name = "x"}, %z: tensor<64x64xf32> {tessera.name = "z"})
    -> (tensor<128x32xf32> {tessera.name = "a"}, tensor<64x64xf32> {tessera.name = "b"}) attributes {tessera.entry = "train"} {
  %step = tessera.step : tensor<i64>
  %beta = tessera.constant dense<0.9> : tensor<f32>
  %one = tessera.constant dense<1.0> : tensor<f32>
  %p = tessera.ipow %beta, %step : (tensor<f32>, tensor<i64>) -> tensor<f32>
  %c = tessera.sub %one, %p : tensor<f32>
  %a = tessera.mul %x, %c : (tensor<128x32xf32>, tensor<f32>) -> tensor<128x32xf32>
  %b = tessera.mul %z, %c : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  return %a, %b : tensor<128x32xf32>, tensor<64x64xf32>
}

// -----

// Small maps of one shape that read one input share a launch; large ones stay apart, so that what
// they read need not live at the same time.
// CHECK-LABEL: @sideways
// CHECK-NEXT: tsched.call @k0_exp_tanh(%arg0)
// CHECK-NEXT: tsched.call @k1_exp(%arg1)
// CHECK-NEXT: tsched.call @k2_tanh(%arg1)
// CHECK-NEXT: return
func.func @sideways(%s: tensor<64xf32> {tessera.name = "s"}, %l: tensor<65536xf32> {tessera.name = "l"})
    -> (tensor<64xf32> {tessera.name = "a"}, tensor<64xf32> {tessera.name = "b"},
        tensor<65536xf32> {tessera.name = "c"}, tensor<65536xf32> {tessera.name = "d"}) attributes {tessera.entry = "infer"} {
  %a = tessera.exp %s : tensor<64xf32>
  %b = tessera.tanh %s : tensor<64xf32>
  %c = tessera.exp %l : tensor<65536xf32>
  %d = tessera.tanh %l : tensor<65536xf32>
  return %a, %b, %c, %d : tensor<64xf32>, tensor<64xf32>, tensor<65536xf32>, tensor<65536xf32>
}
