// SPDX-License-Identifier: Apache-2.0
// With numerics "native" a GPU's products go to its matrix units, and begin with their bias; other targets and other numerics stay as they are.
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a,cpu:x86-64-v3 --numerics native --dump tile > %t.native
// RUN: FileCheck %s --check-prefix=NATIVE --input-file=%t.native
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a --ptxas %S/inputs/ptxas-none --dump tile | FileCheck %s --check-prefix=PORTABLE
// Later GPUs have the instructions of sm_80, not those of sm_90a: tiles of one team, nothing shared.
// RUN: tessera-aot build %s --until tile --target cuda:sm_100a --numerics native --dump tile | FileCheck %s --check-prefix=LATER
// RUN: not tessera-aot build %s -o %t.tsb --numerics exact 2>&1 | FileCheck %s --check-prefix=WRONG

// PORTABLE-NOT: tile.mma
// LATER-NOT: tile.together
// LATER-NOT: tile.teams
// LATER: tile.func @{{.*}}matmul{{.*}} warps {{[0-9]+}} {{.*}}tile = [
// LATER: tile.mma
// LATER-NOT: tile.tail
// WRONG: --numerics is 'exact'; expected portable or native

// NATIVE: ---- tile cuda:sm_90a
// NATIVE: module attributes {{{.*}}tessera.numerics = "native", {{.*}}tessera.target = "cuda:sm_90a"}
// NATIVE: tile.func @{{.*}}matmul{{.*}} warps {{[0-9]+}} {{.*}}tile = [
// NATIVE: %[[ZERO:.*]] = tile.fill
// NATIVE: %[[ROW:.*]] = tile.map %[[ZERO]]
// NATIVE: tile.gather %{{.*}} : memref<3072xf32>
// NATIVE: iter_args(%[[SUM:.*]] = %[[ROW]])
// NATIVE: tile.async_copy %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}} stage %{{.*}} : memref<1536x512xbf16>
// NATIVE: tile.mma %{{.*}}, %{{.*}}, %[[SUM]]
// NATIVE-SAME: {transpose_b}
// Where products are not waited for, warp groups end one after the other.
// NATIVE: {tile.tail = {{[0-9]+}} : i64}
// NATIVE: tile.map
// NATIVE-NEXT: ^bb0({{.*}}, {{.*}}, %[[X:[a-z0-9]*]]: vector<64xf32>
// NATIVE-NEXT: arith.mulf %[[X]], %[[X]]
// NATIVE-NOT: tile.gather
// NATIVE-NOT: truncf
// NATIVE: math.tanh %{{.*}} {tile.approximate}
// NATIVE: tile.store_fragment %{{.*}} through
// Few tiles and a long K: programs share it, and sum up. Their steps are found without dividing; the first have one more.
// NATIVE: tile.func @{{.*}}matmul{{.*}} tile.together = [[TOGETHER:[2-8]]] : i64
// NATIVE: %[[RANK:.*]] = arith.remui %{{.*}}, %c[[TOGETHER]]
// NATIVE: %[[BEFORE:.*]] = arith.minsi %[[RANK]], %[[MORE:.*]] : index
// NATIVE: %[[NEXT:.*]] = arith.addi %[[RANK]], %c1
// NATIVE: %[[WITH:.*]] = arith.minsi %[[NEXT]], %[[MORE]] : index
// NATIVE: %[[STEPS:.*]] = arith.muli %[[RANK]],
// NATIVE: arith.addi %[[STEPS]], %[[BEFORE]]
// NATIVE: arith.subi %[[WITH]], %[[BEFORE]]
// NATIVE: tile.mma
// NATIVE: tile.sum_programs
// NATIVE: tile.map
// NATIVE: tile.gather
// An operand of the result's type and shape comes by the ring that the result leaves by; one of another type is read where it lies.
// NATIVE: tile.func @{{.*}}matmul
// NATIVE: %[[RING:.*]] = tile.alloc_shared swizzle = "xor" : !tile.shared<2x{{[0-9]+}}x32xf32>
// NATIVE: %[[OTHER:.*]] = tile.load_fragment %{{.*}} through %[[RING]] : memref<4096x768xf32>
// NATIVE: tile.mma
// NATIVE: tile.map %{{.*}} with %[[OTHER]]
// NATIVE-NOT: tile.gather
// NATIVE: tile.store_fragment %{{.*}} through %[[RING]]
// NATIVE: tile.func @{{.*}}matmul
// NATIVE-NOT: tile.load_fragment
// NATIVE: tile.gather %{{.*}} : memref<4096x768xf32>
// NATIVE: ---- tile cpu:x86-64-v3
// NATIVE-NOT: tile.mma
func.func @layer(%x: tensor<3x512x512xbf16> {tessera.name = "x"}, %w: tensor<3072x512xbf16> {tessera.name = "w"},
                 %b: tensor<3072xbf16> {tessera.name = "b"}) -> (tensor<3x512x3072xbf16> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %0 = tessera.matmul %x, %w {transpose_b = true} : (tensor<3x512x512xbf16>, tensor<3072x512xbf16>) -> tensor<3x512x3072xbf16>
  %1 = tessera.add %0, %b : (tensor<3x512x3072xbf16>, tensor<3072xbf16>) -> tensor<3x512x3072xbf16>
  %2 = tessera.gelu %1 {approximate = "tanh"} : tensor<3x512x3072xbf16>
  return %2 : tensor<3x512x3072xbf16>
}
func.func @deep(%x: tensor<64x8192xbf16> {tessera.name = "dx"}, %w: tensor<8192x128xbf16> {tessera.name = "dw"},
                %b: tensor<128xbf16> {tessera.name = "db"}) -> (tensor<64x128xbf16> {tessera.name = "dy"})
    attributes {tessera.entry = "infer"} {
  %0 = tessera.matmul %x, %w : (tensor<64x8192xbf16>, tensor<8192x128xbf16>) -> tensor<64x128xbf16>
  %1 = tessera.add %0, %b : (tensor<64x128xbf16>, tensor<128xbf16>) -> tensor<64x128xbf16>
  return %1 : tensor<64x128xbf16>
}
func.func @residual(%x: tensor<4096x768xbf16> {tessera.name = "rx"}, %w: tensor<768x768xbf16> {tessera.name = "rw"},
                    %r: tensor<4096x768xf32> {tessera.name = "rr"}) -> (tensor<4096x768xf32> {tessera.name = "ry"})
    attributes {tessera.entry = "infer"} {
  %0 = tessera.matmul %x, %w : (tensor<4096x768xbf16>, tensor<768x768xbf16>) -> tensor<4096x768xbf16>
  %1 = tessera.cast %0 : tensor<4096x768xbf16> -> tensor<4096x768xf32>
  %2 = tessera.add %r, %1 : tensor<4096x768xf32>
  return %2 : tensor<4096x768xf32>
}
func.func @narrowed(%x: tensor<4096x768xbf16> {tessera.name = "nx"}, %w: tensor<768x768xbf16> {tessera.name = "nw"},
                    %r: tensor<4096x768xf32> {tessera.name = "nr"}) -> (tensor<4096x768xbf16> {tessera.name = "ny"})
    attributes {tessera.entry = "infer"} {
  %0 = tessera.matmul %x, %w : (tensor<4096x768xbf16>, tensor<768x768xbf16>) -> tensor<4096x768xbf16>
  %1 = tessera.cast %0 : tensor<4096x768xbf16> -> tensor<4096x768xf32>
  %2 = tessera.add %r, %1 : tensor<4096x768xf32>
  %3 = tessera.cast %2 : tensor<4096x768xf32> -> tensor<4096x768xbf16>
  return %3 : tensor<4096x768xbf16>
}
