// SPDX-License-Identifier: Apache-2.0
// With numerics "native" gradients of attention go to the matrix units of a GPU as three kernels; what does not fit, and every CPU, computes in f32, by kernels that widen and round.
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a,cpu:x86-64-v3 --numerics native --ptxas %S/inputs/ptxas-narrow --dump tile > %t.native
// RUN: FileCheck %s --check-prefix=NATIVE --input-file=%t.native
// RUN: tessera-aot build %s --until tile --target cuda:sm_80 --numerics native --ptxas %S/inputs/ptxas-queries --dump tile | FileCheck %s --check-prefix=SYNC
// RUN: tessera-aot build %s --until tile --target cuda:sm_80 --numerics native --ptxas %S/inputs/ptxas-narrow --dump tile | FileCheck %s --check-prefix=FIRST
// RUN: FileCheck %s --check-prefix=OTHERS --input-file=%t.native
// With portable numerics operands are widened before there are kernels.
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a --ptxas %S/inputs/ptxas-none --dump tile | FileCheck %s --check-prefix=PORTABLE
// An assembler that takes no such code.
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a --numerics native --ptxas %S/inputs/ptxas-none --dump tile | FileCheck %s --check-prefix=NONE

// NATIVE: ---- tile cuda:sm_90a
// NATIVE: func.func @causal(
// NATIVE: [[R:%.*]]:3 = tsched.call @k0_attention_grad_rows(%arg3, %arg4, %arg5)
// NATIVE-SAME: -> (tensor<2x8x640xf32>, tensor<2x8x640xf32>, tensor<2x8x5xi32>)
// NATIVE: [[T:%.*]]:3 = tsched.call @k0_attention_grad(%arg0, %arg1, %arg2, %arg5, [[R]]#0, [[R]]#1, [[R]]#2)
// NATIVE-SAME: -> (tensor<2x8x640x64xf32>, tensor<2x2x640x64xbf16>, tensor<2x2x640x64xbf16>)
// NATIVE: [[C:%.*]] = tsched.call @k0_attention_grad_cast([[T]]#0)
// NATIVE: return [[C]], [[T]]#1, [[T]]#2
// NATIVE: tile.func @k0_attention_grad_rows({{.*}} grid 80 attributes {bytes =
// NATIVE: tile.butterfly
// NATIVE: tile.func @k0_attention_grad({{.*}} grid 20 warps 8 attributes {
// NATIVE-SAME: tile = [128, 128]
// NATIVE: tile.attend "backward"
// NATIVE-SAME: {causal, scale = 1.250000e-01 : f64}
// NATIVE: tile.func @k0_attention_grad_cast({{.*}} grid 640 attributes {bytes =
// NATIVE: tile.func @k1_attention_grad({{.*}} grid 4 warps 8
// NATIVE-SAME: tile = [128, 64]
// NATIVE: tile.attend "backward"
// NATIVE-SAME: {scale = 3.000000e-01 : f64}
// NATIVE: tile.func @k2_attention_grad_wide0(
// NATIVE-NOT: tile.attend
// Weights that fall: sums of rows are times what stays.
// NATIVE: tile.func @k3_attention_grad_rows(
// NATIVE: arith.constant dense<0.899999976> : vector<32xf32>
// NATIVE: tile.func @k3_attention_grad(
// NATIVE: tile.attend "backward"({{.*}}, %arg7, %arg8, %arg9) at[
// NATIVE-SAME: {causal, dropout = 1.000000e-01 : f64, scale = 1.250000e-01 : f64, stream = 9 : i64}
// NATIVE: ---- tile cpu:x86-64-v3

// With mma.sync: two kernels, which add to nothing of each other's.
// FIRST: ---- tile cuda:sm_80
// FIRST: func.func @causal(
// FIRST: [[R:%.*]]:2 = tsched.call @k0_attention_grad_rows(%arg3, %arg4, %arg5)
// FIRST-SAME: -> (tensor<2x8x640xf32>, tensor<2x8x640xf32>)
// FIRST: [[K:%.*]]:2 = tsched.call @k0_attention_grad(%arg0, %arg1, %arg2, %arg5, [[R]]#0, [[R]]#1)
// FIRST: [[Q:%.*]] = tsched.call @k0_attention_grad_queries(%arg0, %arg1, %arg2, %arg5, [[R]]#0, [[R]]#1)
// FIRST: return [[Q]], [[K]]#0, [[K]]#1
// FIRST: tile.func @k0_attention_grad({{.*}} grid 20 warps 4 attributes {
// FIRST-SAME: tile = [128, 32, 3]
// FIRST: tile.attend "backward_keys"
// FIRST-SAME: {causal, scale = 1.250000e-01 : f64}
// FIRST: tile.func @k0_attention_grad_queries({{.*}} grid 80 warps 4 attributes {
// FIRST-SAME: tile = [128, 64, 2]
// FIRST: tile.attend "backward_queries"
// Heads of 128 numbers: half of the warps has the sums of values, the other half those of keys.
// FIRST: tile.func @k1_attention_grad({{.*}} grid 4 warps 8 attributes {
// FIRST-SAME: tile = [128, 32, 4]
// FIRST: tile.attend "backward_keys"
// FIRST-SAME: !tile.shared<4x2x32xf32>, !tile.shared<2x128x32xf32>)
// FIRST: tile.func @k1_attention_grad_queries({{.*}} grid 4 warps 4 attributes {
// FIRST: tile.func @k2_attention_grad_wide0(
// FIRST-NOT: tile.attend
// FIRST: tile.func @k3_attention_grad_rows(
// FIRST: arith.constant dense<0.899999976> : vector<32xf32>
// FIRST: tile.attend "backward_keys"({{.*}}, %arg6, %arg7, %arg8) at[
// FIRST-SAME: {causal, dropout = 1.000000e-01 : f64, scale = 1.250000e-01 : f64, stream = 9 : i64}

// Where the second one spills, both get other tiles.
// SYNC: tile.func @k0_attention_grad({{.*}} grid 40 warps 4 attributes {
// SYNC-SAME: tile = [64, 64, 2]
// SYNC: tile.func @k0_attention_grad_queries({{.*}} grid 80 warps 4 attributes {
// SYNC-SAME: tile = [128, 32, 3]

// OTHERS: ---- tile cpu:x86-64-v3
// OTHERS: tsched.call @k0_attention_grad_wide4(%arg5)
// OTHERS: tsched.call @k0_attention_grad(
// OTHERS: tsched.call @k0_attention_grad_round2(
// OTHERS-NOT: tile.attend

// PORTABLE-NOT: tsched.call @{{.*}}_wide
// PORTABLE: tsched.call @k{{[0-9]+}}_cast_x5(

// NONE: tsched.call @k0_attention_grad_wide0(
// NONE-NOT: tile.attend
func.func @causal(%q: tensor<2x8x640x64xbf16> {tessera.name = "q"}, %k: tensor<2x2x640x64xbf16> {tessera.name = "k"}, %v: tensor<2x2x640x64xbf16> {tessera.name = "v"},
                  %o: tensor<2x8x640x64xbf16> {tessera.name = "o"}, %l: tensor<2x8x640xf32> {tessera.name = "l"}, %g: tensor<2x8x640x64xbf16> {tessera.name = "g"})
    -> (tensor<2x8x640x64xbf16> {tessera.name = "dq"}, tensor<2x2x640x64xbf16> {tessera.name = "dk"}, tensor<2x2x640x64xbf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g {causal} : (tensor<2x8x640x64xbf16>, tensor<2x2x640x64xbf16>, tensor<2x2x640x64xbf16>, tensor<2x8x640x64xbf16>, tensor<2x8x640xf32>, tensor<2x8x640x64xbf16>) -> (tensor<2x8x640x64xbf16>, tensor<2x2x640x64xbf16>, tensor<2x2x640x64xbf16>)
  return %dq, %dk, %dv : tensor<2x8x640x64xbf16>, tensor<2x2x640x64xbf16>, tensor<2x2x640x64xbf16>
}
func.func @whole(%q: tensor<1x2x256x128xf16> {tessera.name = "q"}, %k: tensor<1x2x256x128xf16> {tessera.name = "k"}, %v: tensor<1x2x256x128xf16> {tessera.name = "v"},
                 %o: tensor<1x2x256x128xf16> {tessera.name = "o"}, %l: tensor<1x2x256xf32> {tessera.name = "l"}, %g: tensor<1x2x256x128xf16> {tessera.name = "g"})
    -> (tensor<1x2x256x128xf16> {tessera.name = "dq"}, tensor<1x2x256x128xf16> {tessera.name = "dk"}, tensor<1x2x256x128xf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g {scale = 0.3 : f64} : (tensor<1x2x256x128xf16>, tensor<1x2x256x128xf16>, tensor<1x2x256x128xf16>, tensor<1x2x256x128xf16>, tensor<1x2x256xf32>, tensor<1x2x256x128xf16>) -> (tensor<1x2x256x128xf16>, tensor<1x2x256x128xf16>, tensor<1x2x256x128xf16>)
  return %dq, %dk, %dv : tensor<1x2x256x128xf16>, tensor<1x2x256x128xf16>, tensor<1x2x256x128xf16>
}
func.func @odd(%q: tensor<1x2x200x64xbf16> {tessera.name = "q"}, %k: tensor<1x2x200x64xbf16> {tessera.name = "k"}, %v: tensor<1x2x200x64xbf16> {tessera.name = "v"},
               %o: tensor<1x2x200x64xbf16> {tessera.name = "o"}, %l: tensor<1x2x200xf32> {tessera.name = "l"}, %g: tensor<1x2x200x64xbf16> {tessera.name = "g"})
    -> (tensor<1x2x200x64xbf16> {tessera.name = "dq"}, tensor<1x2x200x64xbf16> {tessera.name = "dk"}, tensor<1x2x200x64xbf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g {causal} : (tensor<1x2x200x64xbf16>, tensor<1x2x200x64xbf16>, tensor<1x2x200x64xbf16>, tensor<1x2x200x64xbf16>, tensor<1x2x200xf32>, tensor<1x2x200x64xbf16>) -> (tensor<1x2x200x64xbf16>, tensor<1x2x200x64xbf16>, tensor<1x2x200x64xbf16>)
  return %dq, %dk, %dv : tensor<1x2x200x64xbf16>, tensor<1x2x200x64xbf16>, tensor<1x2x200x64xbf16>
}
func.func @dropped(%q: tensor<2x8x640x64xbf16> {tessera.name = "q"}, %k: tensor<2x2x640x64xbf16> {tessera.name = "k"}, %v: tensor<2x2x640x64xbf16> {tessera.name = "v"}, %o: tensor<2x8x640x64xbf16> {tessera.name = "o"}, %l: tensor<2x8x640xf32> {tessera.name = "l"}, %g: tensor<2x8x640x64xbf16> {tessera.name = "g"},
                   %h: tensor<2xi64> {tessera.name = "h"}, %n: tensor<i64> {tessera.name = "n"}, %s: tensor<i64> {tessera.name = "s"})
    -> (tensor<2x8x640x64xbf16> {tessera.name = "dq"}, tensor<2x2x640x64xbf16> {tessera.name = "dk"}, tensor<2x2x640x64xbf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g, %h, %n, %s {causal, dropout = 0.1 : f64, stream = 9 : i64} : (tensor<2x8x640x64xbf16>, tensor<2x2x640x64xbf16>, tensor<2x2x640x64xbf16>, tensor<2x8x640x64xbf16>, tensor<2x8x640xf32>, tensor<2x8x640x64xbf16>, tensor<2xi64>, tensor<i64>, tensor<i64>) -> (tensor<2x8x640x64xbf16>, tensor<2x2x640x64xbf16>, tensor<2x2x640x64xbf16>)
  return %dq, %dk, %dv : tensor<2x8x640x64xbf16>, tensor<2x2x640x64xbf16>, tensor<2x2x640x64xbf16>
}
