// SPDX-License-Identifier: Apache-2.0
// With numerics "native" attention and its gradient read heads where they lie, and write them so: no kernel slices, transposes or joins them.
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_90a,cuda:sm_80 --numerics native --ptxas %S/inputs/ptxas-narrow --dump tile,target > %t.native
// RUN: FileCheck %s --check-prefix=NATIVE --input-file=%t.native
// RUN: FileCheck %s --check-prefix=SYNC --input-file=%t.native

// Keys and values are of half as many heads.
// NATIVE: ---- tile cuda:sm_90a
// NATIVE-NOT: _slice(
// NATIVE-NOT: _transpose(
// NATIVE-NOT: _concat(
// NATIVE: tile.func @[[FORWARD:k[0-9]+_attention]](%arg0: memref<2x256x520xbf16>
// NATIVE: tile.attend "forward"(%arg0, %arg0, %arg0, %{{[0-9]+}}, %{{[0-9]+}})
// NATIVE-SAME: tile.heads = [4, 2, 64], tile.sides = [8, 264, 392, 0, -1]
// NATIVE: tile.func @[[BACKWARD:k[0-9]+_attention_grad]]_rows(
// NATIVE: tile.attend "backward"(%arg0, %arg1, %arg2, %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}, %arg7, %arg8, %arg8)
// NATIVE-SAME: tile.heads = [4, 2, 64], tile.sides = [8, 264, 392, 0, -1, -1, -1, 0, 256, 384]
// The gradient of queries is rounded to its part of what the others are in.
// NATIVE: tile.func @[[BACKWARD]]_cast({{.*}} in_place = [1]

// What attention gives is what the next product, and its gradient, read.
// NATIVE: tessera_target.launch @[[FORWARD]](%[[X:[0-9]+]]) writes(%[[Y:[0-9]+]], %[[L:[0-9]+]])
// NATIVE: tessera_target.launch @[[BACKWARD]]_rows(%[[Y]], %[[L]], %{{[0-9]+}})
// NATIVE: tessera_target.launch @[[BACKWARD]](%[[X]], %[[X]], %[[X]], {{.*}} writes(%[[SUM:[0-9]+]], %[[ALL:[0-9]+]])
// NATIVE: tessera_target.launch @[[BACKWARD]]_cast(%[[SUM]], %[[ALL]]) writes(%[[ALL]])

// With mma.sync gradients of queries are written to what holds the others already.
// SYNC: ---- tile cuda:sm_80
// SYNC-NOT: _transpose(
// SYNC: tile.attend "forward"(%arg0, %arg0, %arg0, %{{[0-9]+}}, %{{[0-9]+}})
// SYNC-SAME: tile.heads = [4, 2, 64], tile.sides = [8, 264, 392, 0, -1]
// SYNC: tile.func @[[BACKWARD:k[0-9]+_attention_grad]]_rows(
// SYNC: tile.func @[[BACKWARD]](
// SYNC: tile.attend "backward_keys"(%arg0, %arg1, %arg2, %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}, %arg6, %arg6)
// SYNC-SAME: tile.heads = [4, 2, 64], tile.sides = [8, 264, 392, 0, -1, -1, 256, 384]
// SYNC: tile.func @[[BACKWARD]]_queries({{.*}} in_place = [6]
// SYNC: tile.attend "backward_queries"(%arg0, %arg1, %arg2, %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}, %arg7)
// SYNC-SAME: tile.heads = [4, 2, 64], tile.sides = [8, 264, 392, 0, -1, -1, 0]
func.func @train(%x: tensor<2x256x520xbf16> {tessera.name = "x"}, %g: tensor<2x256x256xbf16> {tessera.name = "g"})
    -> (tensor<2x256x512xbf16> {tessera.name = "y"}, tensor<2x256x256xbf16> {tessera.name = "o"}) attributes {tessera.entry = "infer"} {
  %x2 = tessera.add %x, %x : tensor<2x256x520xbf16>
  %qf = tessera.slice %x2 {start = [0, 0, 8], size = [2, 256, 256]} : tensor<2x256x520xbf16> -> tensor<2x256x256xbf16>
  %kf = tessera.slice %x2 {start = [0, 0, 264], size = [2, 256, 128]} : tensor<2x256x520xbf16> -> tensor<2x256x128xbf16>
  %vf = tessera.slice %x2 {start = [0, 0, 392], size = [2, 256, 128]} : tensor<2x256x520xbf16> -> tensor<2x256x128xbf16>
  %qs = tessera.reshape %qf : tensor<2x256x256xbf16> -> tensor<2x256x4x64xbf16>
  %ks = tessera.reshape %kf : tensor<2x256x128xbf16> -> tensor<2x256x2x64xbf16>
  %vs = tessera.reshape %vf : tensor<2x256x128xbf16> -> tensor<2x256x2x64xbf16>
  %q = tessera.transpose %qs {permutation = [0, 2, 1, 3]} : tensor<2x256x4x64xbf16> -> tensor<2x4x256x64xbf16>
  %k = tessera.transpose %ks {permutation = [0, 2, 1, 3]} : tensor<2x256x2x64xbf16> -> tensor<2x2x256x64xbf16>
  %v = tessera.transpose %vs {permutation = [0, 2, 1, 3]} : tensor<2x256x2x64xbf16> -> tensor<2x2x256x64xbf16>
  %o, %l = tessera.attention %q, %k, %v {causal} : (tensor<2x4x256x64xbf16>, tensor<2x2x256x64xbf16>, tensor<2x2x256x64xbf16>) -> (tensor<2x4x256x64xbf16>, tensor<2x4x256xf32>)
  %os = tessera.transpose %o {permutation = [0, 2, 1, 3]} : tensor<2x4x256x64xbf16> -> tensor<2x256x4x64xbf16>
  %of = tessera.reshape %os : tensor<2x256x4x64xbf16> -> tensor<2x256x256xbf16>
  %sum = tessera.add %of, %g : tensor<2x256x256xbf16>
  %gs = tessera.reshape %sum : tensor<2x256x256xbf16> -> tensor<2x256x4x64xbf16>
  %gt = tessera.transpose %gs {permutation = [0, 2, 1, 3]} : tensor<2x256x4x64xbf16> -> tensor<2x4x256x64xbf16>
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %gt {causal} : (tensor<2x4x256x64xbf16>, tensor<2x2x256x64xbf16>, tensor<2x2x256x64xbf16>, tensor<2x4x256x64xbf16>, tensor<2x4x256xf32>, tensor<2x4x256x64xbf16>) -> (tensor<2x4x256x64xbf16>, tensor<2x2x256x64xbf16>, tensor<2x2x256x64xbf16>)
  %dqs = tessera.transpose %dq {permutation = [0, 2, 1, 3]} : tensor<2x4x256x64xbf16> -> tensor<2x256x4x64xbf16>
  %dks = tessera.transpose %dk {permutation = [0, 2, 1, 3]} : tensor<2x2x256x64xbf16> -> tensor<2x256x2x64xbf16>
  %dvs = tessera.transpose %dv {permutation = [0, 2, 1, 3]} : tensor<2x2x256x64xbf16> -> tensor<2x256x2x64xbf16>
  %dqf = tessera.reshape %dqs : tensor<2x256x4x64xbf16> -> tensor<2x256x256xbf16>
  %dkf = tessera.reshape %dks : tensor<2x256x2x64xbf16> -> tensor<2x256x128xbf16>
  %dvf = tessera.reshape %dvs : tensor<2x256x2x64xbf16> -> tensor<2x256x128xbf16>
  %d = tessera.concat %dqf, %dkf, %dvf {axis = 2 : i64} : (tensor<2x256x256xbf16>, tensor<2x256x128xbf16>, tensor<2x256x128xbf16>) -> tensor<2x256x512xbf16>
  %y = tessera.add %d, %d : tensor<2x256x512xbf16>
  return %y, %sum : tensor<2x256x512xbf16>, tensor<2x256x256xbf16>
}
