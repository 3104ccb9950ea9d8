// SPDX-License-Identifier: Apache-2.0
// Attention of bf16 under numerics "native" multiplies by dot products where the CPU has them: its operands as they are, weights in pairs of keys, in the gradient of queries, too.
// Of the gradient's results the query's alone is summed up in f32 and rounded behind the kernel. Other CPUs and portable numerics widen.
// RUN: tessera-aot build %s --until tile --target cpu:x86-64-v4-bf16 --numerics native --dump tile | FileCheck %s
// RUN: tessera-aot build %s --until tile --target cpu:x86-64-v4 --numerics native --dump tile | FileCheck %s --check-prefix=NONE
// RUN: tessera-aot build %s --until tile --target cpu:x86-64-v4-bf16 --dump tile | FileCheck %s --check-prefix=NONE

// NONE-NOT: tile.dot
// NONE: tile.func @k{{[01]}}_attention
// NONE-NOT: tile.dot
// NONE: tile.func @{{.*}}attention_grad{{.*}}(%arg0: memref<1x2x64x32xf32>
// NONE-NOT: tile.dot

// CHECK: %[[G:.*]]:3 = tsched.call @[[K:.*]](%arg0, %arg1, %arg2, %{{.*}}, %{{.*}}, %arg3) {{.*}} -> (tensor<1x2x64x32xf32>, tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>)
// CHECK-NEXT: tsched.call @[[K]]_round0(%[[G]]#0) : (tensor<1x2x64x32xf32>) -> tensor<1x2x64x32xbf16>
// CHECK-NEXT: return
// CHECK: tile.func @k0_attention(%arg0: memref<1x2x64x32xbf16>
// Scores, weights, then the product with values.
// CHECK: tile.load %arg0[%{{.*}}] : memref<1x2x64x32xbf16> -> vector<2xbf16>
// CHECK: tile.dot
// CHECK: math.exp
// CHECK: %[[P:.*]] = arith.truncf %{{.*}} {tile.normal} : vector<64xf32> to vector<64xbf16>
// CHECK: tile.store %[[P]], %[[W:.*]][%{{.*}}]
// CHECK: %[[A:.*]] = tile.load %[[W]][%{{.*}}] : memref<{{.*}}xbf16> -> vector<2xbf16>
// CHECK: tile.dot %[[A]]
// CHECK: tile.func @[[K]](%arg0: memref<1x2x64x32xbf16>
// CHECK: tile.load %arg0[%{{.*}}] : memref<1x2x64x32xbf16> -> vector<2xbf16>
// CHECK: tile.dot
// Two queries side by side, for the sums over them.
// CHECK: vector.shuffle %{{.*}}, %{{.*}} [0, 32, 1, 33, 2, 34,
func.func @f(%q: tensor<1x2x64x32xbf16> {tessera.name = "q"}, %k: tensor<1x2x64x32xbf16> {tessera.name = "k"}, %v: tensor<1x2x64x32xbf16> {tessera.name = "v"},
    %g: tensor<1x2x64x32xbf16> {tessera.name = "g"}) -> (tensor<1x2x64x32xbf16> {tessera.name = "dq"}, tensor<1x2x64x32xbf16> {tessera.name = "dk"},
    tensor<1x2x64x32xbf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %o, %l = tessera.attention %q, %k, %v {causal} : tensor<1x2x64x32xbf16> -> (tensor<1x2x64x32xbf16>, tensor<1x2x64xf32>)
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g {causal} : (tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>, tensor<1x2x64xf32>, tensor<1x2x64x32xbf16>) -> (tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>)
  return %dq, %dk, %dv : tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>
}
