// SPDX-License-Identifier: Apache-2.0
// With numerics "native" a GPU's products go to its matrix units; other targets and other numerics stay as they are.
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_90a,cpu:x86-64-v3 --numerics native --dump tile > %t.native
// RUN: FileCheck %s --check-prefix=NATIVE --input-file=%t.native
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_90a --dump tile | FileCheck %s --check-prefix=PORTABLE
// Matrix units of later GPUs have other instructions.
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_100a --numerics native --dump tile | FileCheck %s --check-prefix=PORTABLE
// RUN: not tessera-aot build %s -o %t.tsb --numerics exact 2>&1 | FileCheck %s --check-prefix=WRONG

// PORTABLE-NOT: tile.mma
// WRONG: --numerics is 'exact'; expected portable or native

// NATIVE: ---- tile cuda:sm_90a
// NATIVE: module attributes {tessera.numerics = "native", tessera.target = "cuda:sm_90a"}
// NATIVE: tile.func @{{.*}}matmul{{.*}} warps {{[0-9]+}} {{.*}}tile = [
// NATIVE: tile.async_copy %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}} stage %{{.*}} : memref<1536x512xbf16>
// NATIVE: tile.mma
// NATIVE-SAME: {transpose_b}
// NATIVE: tile.map
// NATIVE: tile.gather %{{.*}} : memref<3072xf32>
// NATIVE-NOT: truncf
// NATIVE: tile.gelu %{{.*}} {tanh, tile.approximate}
// NATIVE: tile.store_fragment %{{.*}} through
// NATIVE: ---- tile cpu:x86-64-v3
// NATIVE-NOT: tile.mma
func.func @layer(%x: tensor<3x512x512xbf16> {tessera.name = "x"}, %w: tensor<3072x512xbf16> {tessera.name = "w"},
                 %b: tensor<3072xbf16> {tessera.name = "b"}) -> (tensor<3x512x3072xbf16> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %0 = tessera.matmul %x, %w {transpose_b = true} : tensor<3x512x512xbf16>, tensor<3072x512xbf16> -> tensor<3x512x3072xbf16>
  %1 = tessera.add %0, %b : tensor<3x512x3072xbf16>, tensor<3072xbf16> -> tensor<3x512x3072xbf16>
  %2 = tessera.gelu %1 {approximate = "tanh"} : tensor<3x512x3072xbf16>
  return %2 : tensor<3x512x3072xbf16>
}
