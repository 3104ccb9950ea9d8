// SPDX-License-Identifier: Apache-2.0
// Gradients that are needed as they are, too, are transposed back: of queries and of keys with half as many heads by a kernel each.
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_90a --numerics native --ptxas %S/inputs/ptxas-narrow --dump tile,target > %t.native
// RUN: FileCheck %s --input-file=%t.native

// CHECK: tile.func @[[QUERIES:k[0-9]+_attention_grad_transpose]](%arg0: memref<2x256x4x64xbf16>, %arg1: memref<2x4x256x64xbf16>)
// CHECK: tile.func @[[KEYS:k[0-9]+_attention_grad_transpose_2]](%arg0: memref<2x256x2x64xbf16>, %arg1: memref<2x2x256x64xbf16>)
// CHECK: tessera_target.launch @[[QUERIES]](
// CHECK: tessera_target.launch @[[KEYS]](
func.func @train(%q: tensor<2x4x256x64xbf16> {tessera.name = "q"}, %k: tensor<2x2x256x64xbf16> {tessera.name = "k"}, %v: tensor<2x2x256x64xbf16> {tessera.name = "v"}, %o: tensor<2x4x256x64xbf16> {tessera.name = "o"}, %l: tensor<2x4x256xf32> {tessera.name = "l"}, %g: tensor<2x4x256x64xbf16> {tessera.name = "g"})
    -> (tensor<2x256x4x64xbf16> {tessera.name = "a"}, tensor<2x256x2x64xbf16> {tessera.name = "b"}, tensor<2x4x256x64xbf16> {tessera.name = "c"}, tensor<2x2x256x64xbf16> {tessera.name = "d"}, tensor<2x2x256x64xbf16> {tessera.name = "e"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g {causal} : (tensor<2x4x256x64xbf16>, tensor<2x2x256x64xbf16>, tensor<2x2x256x64xbf16>, tensor<2x4x256x64xbf16>, tensor<2x4x256xf32>, tensor<2x4x256x64xbf16>) -> (tensor<2x4x256x64xbf16>, tensor<2x2x256x64xbf16>, tensor<2x2x256x64xbf16>)
  %a = tessera.transpose %dq {permutation = [0, 2, 1, 3]} : tensor<2x4x256x64xbf16> -> tensor<2x256x4x64xbf16>
  %b = tessera.transpose %dk {permutation = [0, 2, 1, 3]} : tensor<2x2x256x64xbf16> -> tensor<2x256x2x64xbf16>
  return %a, %b, %dq, %dk, %dv : tensor<2x256x4x64xbf16>, tensor<2x256x2x64xbf16>, tensor<2x4x256x64xbf16>, tensor<2x2x256x64xbf16>, tensor<2x2x256x64xbf16>
}
