// SPDX-License-Identifier: Apache-2.0
// With numerics "native" attention of 16-bit heads of 64 or 128 numbers goes to the matrix units of a GPU; what has a mask, or another size, stays.
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a,cuda:sm_80,cpu:x86-64-v3 --numerics native --ptxas %S/inputs/ptxas-narrow --dump tile > %t.native
// RUN: FileCheck %s --check-prefix=NATIVE --input-file=%t.native
// RUN: FileCheck %s --check-prefix=SYNC --input-file=%t.native
// RUN: FileCheck %s --check-prefix=OTHERS --input-file=%t.native
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a --ptxas %S/inputs/ptxas-none --dump tile | FileCheck %s --check-prefix=PORTABLE
// A tile that no code could be made of gives way to the portable family.
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a --numerics native --ptxas %S/inputs/ptxas-none --dump tile | FileCheck %s --check-prefix=PORTABLE

// PORTABLE: tile.func @k{{[0-9]+}}_attention
// PORTABLE-NOT: tile.attend

// Programs of two tiles: the last and the first, the last but one and the second, the one between.
// NATIVE: ---- tile cuda:sm_90a
// NATIVE: tile.func @k0_attention({{.*}} grid 48 warps 8 {{.*}}tile = [128, 128,
// NATIVE: tile.view %{{.*}} : memref<2x8x600x64xbf16> -> memref<16x600x64xbf16>
// NATIVE: arith.minsi
// NATIVE: scf.for
// NATIVE: tile.attend "forward"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) at[%{{.*}}, %{{.*}}, %{{.*}}]
// NATIVE-SAME: {causal, pingpong, scale = 1.250000e-01 : f64}
// NATIVE: tile.func @k1_attention({{.*}} grid 25 warps 8
// NATIVE-NOT: scf.for
// NATIVE: tile.attend "forward"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) at[
// NATIVE-SAME: {pingpong, scale = 3.000000e-01 : f64}
// NATIVE: tile.func @k2_attention(
// NATIVE-NOT: tile.attend
// NATIVE: tile.func @k3_attention(
// NATIVE-NOT: tile.attend
// Weights that fall do so there, too; but not where nearly all do.
// NATIVE: tile.func @k4_attention(
// NATIVE: tile.attend "forward"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %arg3, %arg4, %arg5) at[
// NATIVE-SAME: {causal, dropout = 1.000000e-01 : f64, pingpong, scale = 1.250000e-01 : f64, stream = 9 : i64}
// NATIVE: tile.func @k5_attention(
// NATIVE-NOT: tile.attend
// NATIVE: ---- tile cuda:sm_80

// With mma.sync a program has one tile, the last one first; the result leaves by the rows of the queries.
// SYNC: ---- tile cuda:sm_80
// SYNC: tile.func @k0_attention({{.*}} grid 80 warps 4 attributes {{.*}}tile = [128, 64, 3, 0]
// SYNC: %[[LAST:.*]] = arith.constant 4 : index
// SYNC: arith.subi %[[LAST]], %{{.*}} : index
// SYNC-NOT: scf.for
// SYNC: tile.attend "forward"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) at[%{{.*}}, %{{.*}}, %{{.*}}] through(%{{[0-9]+}}, %{{[0-9]+}})
// SYNC-SAME: {causal, scale = 1.250000e-01 : f64}
// SYNC-SAME: (!tile.shared<1x128x64xbf16>, !tile.shared<3x64x64xbf16>)
// SYNC: tile.func @k1_attention({{.*}} grid 25 warps 4
// SYNC-NOT: arith.subi
// SYNC: tile.attend "forward"(
// SYNC-SAME: {scale = 3.000000e-01 : f64}
// SYNC: tile.func @k2_attention(
// SYNC-NOT: tile.attend
// What falls takes registers: warps of fewer queries, and more of them.
// SYNC: tile.func @k4_attention({{.*}} grid 160 warps 4 registers 128 attributes {{.*}}tile = [64, 64, 3, 0]
// SYNC: tile.attend "forward"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %arg3, %arg4, %arg5) at[
// SYNC-SAME: {causal, dropout = 1.000000e-01 : f64, scale = 1.250000e-01 : f64, stream = 9 : i64}
// SYNC: tile.func @k5_attention(
// SYNC-NOT: tile.attend
// SYNC: ---- tile cpu

// OTHERS: ---- tile cpu:x86-64-v3
// OTHERS: tile.func @k0_attention({{.*}}memref<2x8x600x64xbf16>
// OTHERS-NOT: tile.attend
func.func @causal(%q: tensor<2x8x600x64xbf16> {tessera.name = "q"}, %k: tensor<2x2x600x64xbf16> {tessera.name = "k"}, %v: tensor<2x2x600x64xbf16> {tessera.name = "v"})
    -> (tensor<2x8x600x64xbf16> {tessera.name = "o"}, tensor<2x8x600xf32> {tessera.name = "l"}) attributes {tessera.entry = "infer"} {
  %o, %l = tessera.attention %q, %k, %v {causal} : (tensor<2x8x600x64xbf16>, tensor<2x2x600x64xbf16>, tensor<2x2x600x64xbf16>) -> (tensor<2x8x600x64xbf16>, tensor<2x8x600xf32>)
  return %o, %l : tensor<2x8x600x64xbf16>, tensor<2x8x600xf32>
}
func.func @whole(%q: tensor<1x5x600x128xf16> {tessera.name = "q"}, %k: tensor<1x5x90x128xf16> {tessera.name = "k"}, %v: tensor<1x5x90x128xf16> {tessera.name = "v"})
    -> (tensor<1x5x600x128xf16> {tessera.name = "o"}) attributes {tessera.entry = "infer"} {
  %o = tessera.attention %q, %k, %v {scale = 0.3 : f64} : (tensor<1x5x600x128xf16>, tensor<1x5x90x128xf16>, tensor<1x5x90x128xf16>) -> tensor<1x5x600x128xf16>
  return %o : tensor<1x5x600x128xf16>
}
func.func @masked(%q: tensor<1x2x64x64xbf16> {tessera.name = "q"}, %k: tensor<1x2x64x64xbf16> {tessera.name = "k"}, %v: tensor<1x2x64x64xbf16> {tessera.name = "v"},
                  %m: tensor<64x64xbf16> {tessera.name = "m"})
    -> (tensor<1x2x64x64xbf16> {tessera.name = "o"}) attributes {tessera.entry = "infer"} {
  %o = tessera.attention %q, %k, %v, %m : (tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>, tensor<64x64xbf16>) -> tensor<1x2x64x64xbf16>
  return %o : tensor<1x2x64x64xbf16>
}
func.func @narrow(%q: tensor<1x2x64x32xbf16> {tessera.name = "q"}, %k: tensor<1x2x64x32xbf16> {tessera.name = "k"}, %v: tensor<1x2x64x32xbf16> {tessera.name = "v"})
    -> (tensor<1x2x64x32xbf16> {tessera.name = "o"}) attributes {tessera.entry = "infer"} {
  %o = tessera.attention %q, %k, %v {causal} : tensor<1x2x64x32xbf16>
  return %o : tensor<1x2x64x32xbf16>
}
func.func @dropped(%q: tensor<2x8x600x64xbf16> {tessera.name = "q"}, %k: tensor<2x2x600x64xbf16> {tessera.name = "k"}, %v: tensor<2x2x600x64xbf16> {tessera.name = "v"}, %h: tensor<2xi64> {tessera.name = "h"},
                   %n: tensor<i64> {tessera.name = "n"}, %s: tensor<i64> {tessera.name = "s"})
    -> (tensor<2x8x600x64xbf16> {tessera.name = "o"}, tensor<2x8x600xf32> {tessera.name = "l"}) attributes {tessera.entry = "infer"} {
  %o, %l = tessera.attention %q, %k, %v, %h, %n, %s {causal, dropout = 0.1 : f64, stream = 9 : i64} : (tensor<2x8x600x64xbf16>, tensor<2x2x600x64xbf16>, tensor<2x2x600x64xbf16>, tensor<2xi64>, tensor<i64>, tensor<i64>) -> (tensor<2x8x600x64xbf16>, tensor<2x8x600xf32>)
  return %o, %l : tensor<2x8x600x64xbf16>, tensor<2x8x600xf32>
}
func.func @nearly(%q: tensor<2x8x600x64xbf16> {tessera.name = "q"}, %k: tensor<2x2x600x64xbf16> {tessera.name = "k"}, %v: tensor<2x2x600x64xbf16> {tessera.name = "v"}, %h: tensor<2xi64> {tessera.name = "h"},
                   %n: tensor<i64> {tessera.name = "n"}, %s: tensor<i64> {tessera.name = "s"})
    -> (tensor<2x8x600x64xbf16> {tessera.name = "o"}, tensor<2x8x600xf32> {tessera.name = "l"}) attributes {tessera.entry = "infer"} {
  %o, %l = tessera.attention %q, %k, %v, %h, %n, %s {causal, dropout = 0.97 : f64, stream = 9 : i64} : (tensor<2x8x600x64xbf16>, tensor<2x2x600x64xbf16>, tensor<2x2x600x64xbf16>, tensor<2xi64>, tensor<i64>, tensor<i64>) -> (tensor<2x8x600x64xbf16>, tensor<2x8x600xf32>)
  return %o, %l : tensor<2x8x600x64xbf16>, tensor<2x8x600xf32>
}
