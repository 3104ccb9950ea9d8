// SPDX-License-Identifier: Apache-2.0
// Products of f32 with `allow_tf32` go to matrix units under native numerics; wgmma gets factors that lie along K, weights transposed once.
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a,cuda:sm_80,cpu:x86-64-v3 --numerics native --dump tile > %t.native
// RUN: FileCheck %s --input-file=%t.native
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a --ptxas %S/inputs/ptxas-none --dump tile | FileCheck %s --check-prefix=PORTABLE
// PORTABLE-NOT: tile.mma
// GPUs after sm_90a have no wgmma: mma.sync reads factors of f32 as they lie there, too.
// RUN: tessera-aot build %s --until tile --target cuda:sm_100a --numerics native --dump tile | FileCheck %s --check-prefix=LATER
// LATER-LABEL: func.func @both
// LATER: tsched.call @[[STRIDED:.*]](%arg0, %arg1)
// LATER: tsched.call @[[BOTH:.*]](%arg0, %arg2)
// LATER-LABEL: func.func @weight
// LATER: tsched.call @[[PLAIN:.*]](%arg0, %0)
// LATER: tile.func @[[STRIDED]]({{.*}} warps
// LATER: tile.mma %{{.*}} {transpose_a} : !tile.shared<{{[0-9]+}}x32x{{[0-9]+}}xf32>
// LATER: tile.func @[[BOTH]]({{.*}} warps
// LATER: tile.mma %{{.*}} {transpose_a, transpose_b} : !tile.shared<{{[0-9]+}}x32x{{[0-9]+}}xf32>
// LATER: tile.func @[[PLAIN]]({{.*}} warps
// LATER: tile.mma %{{.*}} : !tile.shared<{{[0-9]+}}x{{[0-9]+}}x32xf32>, !tile.shared<{{[0-9]+}}x32x{{[0-9]+}}xf32>

// CHECK: ---- tile cuda:sm_90a
// CHECK-LABEL: func.func @both
// A factor that two products read, and that is strided along K for both, is transposed once.
// CHECK: %[[TA:.*]] = tsched.call @[[LHS:.*]](%arg0) : (tensor<512x256xf32>) -> tensor<256x512xf32>
// CHECK: %[[TB:.*]] = tsched.call @{{.*}}(%arg1) : (tensor<512x384xf32>) -> tensor<384x512xf32>
// CHECK: tsched.call @[[PRODUCT:.*]](%[[TA]], %[[TB]])
// CHECK: tsched.call @{{.*}}(%[[TA]], %arg2)
// CHECK-NOT: tsched.call @[[LHS]](
// CHECK-LABEL: func.func @weight
// CHECK: %[[W:.*]] = tsched.call @[[HOISTED:.*hoisted]](
// CHECK: tsched.call @{{.*}}(%arg0, %[[W]])
// Too few rows to be worth it; and no permission.
// CHECK-LABEL: func.func @few
// CHECK: %0 = tsched.call @[[FEW:.*]](%arg0, %arg1)
// CHECK-LABEL: func.func @exact
// CHECK: %0 = tsched.call @[[EXACT:.*]](%arg0, %arg1)
// CHECK: tile.func @[[LHS]]({{.*}} warps
// CHECK: tile.load_shared %{{.*}} {transpose}
// CHECK: tile.func @[[PRODUCT]]({{.*}} warps
// CHECK: tile.mma %{{.*}} {transpose_b} : !tile.shared<{{[0-9x]+}}x32xf32>
// CHECK: tile.func @[[HOISTED]]({{.*}} prepacks
// CHECK: tile.func @[[FEW]](
// CHECK-NOT: tile.mma
// CHECK: tile.func @[[EXACT]](
// CHECK-NOT: tile.mma
// mma.sync reads in any order.
// CHECK: ---- tile cuda:sm_80
// CHECK-LABEL: func.func @both
// CHECK: %0 = tsched.call @[[PRODUCT]](%arg0, %arg1)
// CHECK: tile.func @[[PRODUCT]]({{.*}} warps
// CHECK: tile.mma %{{.*}} {transpose_a} : !tile.shared<{{[0-9]+}}x32x{{[0-9]+}}xf32>
// CHECK: ---- tile cpu:x86-64-v3
// CHECK-NOT: tile.mma
func.func @both(%a: tensor<512x256xf32> {tessera.name = "a"}, %b: tensor<512x384xf32> {tessera.name = "b"}, %c: tensor<128x512xf32> {tessera.name = "c"})
    -> (tensor<256x384xf32> {tessera.name = "y"}, tensor<256x128xf32> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b {transpose_a = true, allow_tf32} : (tensor<512x256xf32>, tensor<512x384xf32>) -> tensor<256x384xf32>
  %z = tessera.matmul %a, %c {transpose_a = true, transpose_b = true, allow_tf32} : (tensor<512x256xf32>, tensor<128x512xf32>) -> tensor<256x128xf32>
  return %y, %z : tensor<256x384xf32>, tensor<256x128xf32>
}
func.func @weight(%x: tensor<8x512xf32> {tessera.name = "wx"}) -> (tensor<8x640xf32> {tessera.name = "wy"}) attributes {tessera.entry = "infer"} {
  %w = tessera.param "w" init = #tessera.uniform<-1.0, 1.0> : tensor<512x640xf32>
  %y = tessera.matmul %x, %w {allow_tf32} : (tensor<8x512xf32>, tensor<512x640xf32>) -> tensor<8x640xf32>
  return %y : tensor<8x640xf32>
}
func.func @few(%x: tensor<8x512xf32> {tessera.name = "fx"}, %w: tensor<512x768xf32> {tessera.name = "fw"})
    -> (tensor<8x768xf32> {tessera.name = "fy"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %x, %w {allow_tf32} : (tensor<8x512xf32>, tensor<512x768xf32>) -> tensor<8x768xf32>
  return %y : tensor<8x768xf32>
}
func.func @exact(%x: tensor<256x512xf32> {tessera.name = "ex"}, %w: tensor<384x512xf32> {tessera.name = "ew"})
    -> (tensor<256x384xf32> {tessera.name = "ey"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %x, %w {transpose_b = true} : (tensor<256x512xf32>, tensor<384x512xf32>) -> tensor<256x384xf32>
  return %y : tensor<256x384xf32>
}
