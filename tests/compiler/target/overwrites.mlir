// SPDX-License-Identifier: Apache-2.0
// What a launch reads twice it may only write over if it may both times.
// RUN: split-file %s %t
// RUN: tessera-aot build --from=schedule --target=cpu:x86-64-v2 %t/twice.mlir -o %t.tsb
// RUN: tessera-run %t.tsb --entry apart --output y=%t.a.npy
// RUN: tessera-run %t.tsb --entry twice --output y=%t.t.npy
// RUN: cmp %t.a.npy %t.t.npy
// RUN: tessera-aot build --numerics=native --target=cuda:sm_90a %t/segments.mlir -o %t.g.tsb --dump=target | FileCheck %s

// Two segments of a batch read one gradient: neither writes over it.
// CHECK: tessera_target.func @train workspace 49152
// CHECK: tessera_target.launch @k0_matmul({{.*}}) writes(%[[G:[0-9]+]])
// CHECK: tessera_target.launch @k1_sub_x2(%{{.*}}, %[[G]], %{{.*}}, %[[G]]) writes(
//--- twice.mlir
func.func @apart() -> (tensor<32x32xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %x = tessera.param "x" init = #tessera.normal<0.0, 1.0> : tensor<32x32xf32>
  %w = tessera.param "w" init = #tessera.normal<0.0, 1.0> : tensor<32x32xf32>
  %0 = tsched.call @k_neg(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = tsched.call @k_neg(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = tsched.call @k_matmul(%0, %w, %1) : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %3 = tsched.call @k_neg(%2) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  return %3 : tensor<32x32xf32>
}
func.func @twice() -> (tensor<32x32xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %x = tessera.param "x" init = #tessera.normal<0.0, 1.0> : tensor<32x32xf32>
  %w = tessera.param "w" init = #tessera.normal<0.0, 1.0> : tensor<32x32xf32>
  %0 = tsched.call @k_neg(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = tsched.call @k_neg(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = tsched.call @k_matmul(%0, %w, %0) : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %3 = tsched.call @k_neg(%2) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  return %3 : tensor<32x32xf32>
}
tsched.func @k_neg(%a: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {bytes = 0 : i64, flops = 0 : i64, kind = "map", source = "default"} {
  %r = tessera.neg %a : tensor<32x32xf32>
  tsched.return %r : tensor<32x32xf32>
}
tsched.func @k_matmul(%a: tensor<32x32xf32>, %b: tensor<32x32xf32>, %c: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {bytes = 0 : i64, flops = 0 : i64, kind = "matmul", source = "default"} {
  %m = tessera.matmul %a, %b : tensor<32x32xf32>
  %r = tessera.add %m, %c : tensor<32x32xf32>
  tsched.return %r : tensor<32x32xf32>
}
//--- segments.mlir
func.func @train(%x: tensor<64x64xf32> {tessera.data = "x"}) -> (tensor<64x64xf32> {tessera.name = "a"}, tensor<64x64xf32> {tessera.name = "b"}) attributes {tessera.entry = "train"} {
  %v = tessera.param "v" init = #tessera.normal<0.0, 1.0> : tensor<64x64xf32>
  %w = tessera.param "w" init = #tessera.normal<0.0, 1.0> : tensor<64x64xf32>
  %g = tessera.matmul %x, %x : tensor<64x64xf32>
  %nv = tessera.sub %v, %g : tensor<64x64xf32>
  %nw = tessera.sub %w, %g : tensor<64x64xf32>
  tessera.assign %nv to "v" : tensor<64x64xf32>
  tessera.assign %nw to "w" : tensor<64x64xf32>
  return %v, %w : tensor<64x64xf32>, tensor<64x64xf32>
}
