// SPDX-License-Identifier: Apache-2.0
// Arguments whose rows the copy engine refuses, as factors of products on matrix units, are copied with a pitch first; but for those whose rows would be much longer.
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a,cpu:x86-64-v3 --numerics native --dump tile | FileCheck %s
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a --ptxas %S/inputs/ptxas-none --dump tile | FileCheck %s --check-prefix=PORTABLE
// PORTABLE-NOT: _relayout

// CHECK: ---- tile cuda:sm_90a
// CHECK-LABEL: func.func @odd
// CHECK: %0 = tsched.call @[[A:.*_relayout]](%arg0)
// CHECK: %1 = tsched.call @[[B:.*_relayout_2]](%arg1)
// CHECK: tsched.call @[[PRODUCT:.*]](%0, %1)
// One that is taken as it is, and one that is not.
// CHECK-LABEL: func.func @half
// CHECK: %0 = tsched.call @{{.*}}_relayout(%arg1)
// CHECK: tsched.call @{{.*}}(%arg0, %0)
// Twice in one entry, copied once.
// CHECK-LABEL: func.func @shared
// CHECK-COUNT-1: _relayout
// CHECK-NOT: _relayout
// CHECK-LABEL: func.func @small
// CHECK-NOT: _relayout
// CHECK-DAG: tile.func @[[A]](%arg0: memref<512x1001xbf16>, %arg1: memref<512x1001xbf16, strided<[1024, 1]>>)
// CHECK-DAG: tile.func @[[PRODUCT]](%arg0: memref<512x1001xbf16, strided<[1024, 1]>>, %arg1: memref<1001x999xbf16, strided<[1024, 1]>>
// CHECK: ---- tile cpu:x86-64-v3
// CHECK-NOT: _relayout

func.func @odd(%a: tensor<512x1001xbf16> {tessera.name = "a"}, %b: tensor<1001x999xbf16> {tessera.name = "b"})
    -> (tensor<512x999xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b : (tensor<512x1001xbf16>, tensor<1001x999xbf16>) -> tensor<512x999xbf16>
  return %y : tensor<512x999xbf16>
}
func.func @half(%a: tensor<512x1024xbf16> {tessera.name = "c"}, %b: tensor<1024x999xbf16> {tessera.name = "d"})
    -> (tensor<512x999xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b : (tensor<512x1024xbf16>, tensor<1024x999xbf16>) -> tensor<512x999xbf16>
  return %y : tensor<512x999xbf16>
}
func.func @shared(%a: tensor<768x1024xbf16> {tessera.name = "e"}, %b: tensor<1024x997xbf16> {tessera.name = "f"}, %c: tensor<640x1024xbf16> {tessera.name = "g"})
    -> (tensor<768x997xbf16> {tessera.name = "y"}, tensor<640x997xbf16> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b : (tensor<768x1024xbf16>, tensor<1024x997xbf16>) -> tensor<768x997xbf16>
  %z = tessera.matmul %c, %b : (tensor<640x1024xbf16>, tensor<1024x997xbf16>) -> tensor<640x997xbf16>
  return %y, %z : tensor<768x997xbf16>, tensor<640x997xbf16>
}
func.func @small(%a: tensor<16x9xbf16> {tessera.name = "h"}, %b: tensor<9x64xbf16> {tessera.name = "i"})
    -> (tensor<16x64xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b : (tensor<16x9xbf16>, tensor<9x64xbf16>) -> tensor<16x64xbf16>
  return %y : tensor<16x64xbf16>
}
