// SPDX-License-Identifier: Apache-2.0
// Calls of one elementwise expression, on buffers of other sizes, become one call.
// RUN: tessera-opt -tsched-fuse -tsched-batch -split-input-file %s | FileCheck %s

// What only leaves the entry is computed late, larger segments first; scalars are shared. The shape of a tensor plays no part; one whose size
// is not a multiple of 16 bytes, another expression and a value that is read again stay apart.
// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[A:.*]] = tessera.param "a"
// CHECK-DAG: %[[B:.*]] = tessera.param "b"
// CHECK-DAG: %[[D:.*]] = tessera.param "d"
// CHECK: %[[R:.*]]:3 = tsched.call @[[X:k[0-9]+_mul]]_x3(%[[B]], %[[A]], %[[D]], %arg0) : (tensor<70000xf32>, tensor<300x200xf32>, tensor<100x600xf32>, tensor<f32>) -> (tensor<70000xf32>, tensor<300x200xf32>, tensor<100x600xf32>)
// CHECK-NOT: @[[X]](
// CHECK: tessera.assign %[[R]]#1 to "a"
// CHECK: tessera.assign %[[R]]#0 to "b"
// CHECK: tessera.assign %[[R]]#2 to "d"
// CHECK-NOT: @[[X]](
// CHECK: tsched.func @[[X]]_x3(%[[P:.*]]: tensor<70000xf32>, %[[Q:.*]]: tensor<300x200xf32>, %{{.*}}: tensor<100x600xf32>, %[[S:.*]]: tensor<f32>)
// CHECK-SAME: kind = "batch"
// CHECK-SAME: tile.segments = [3, 1]
// CHECK-NEXT: tessera.mul %[[P]], %[[S]]
// CHECK-NEXT: tessera.mul %[[Q]], %[[S]]
// CHECK-NEXT: tessera.mul
// CHECK-NEXT: tsched.return
func.func @train(%s: tensor<f32> {tessera.name = "s"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
  %a = tessera.param "a" init = #tessera.constant<0.5> : tensor<300x200xf32>
  %b = tessera.param "b" init = #tessera.constant<0.5> : tensor<70000xf32>
  %c = tessera.param "c" init = #tessera.constant<0.5> : tensor<70001xf32>
  %d = tessera.param "d" init = #tessera.constant<0.5> : tensor<100x600xf32>
  %e = tessera.param "e" init = #tessera.constant<0.5> : tensor<70000xf32>
  %a1 = tessera.mul %a, %s : (tensor<300x200xf32>, tensor<f32>) -> tensor<300x200xf32>
  %b1 = tessera.mul %b, %s : (tensor<70000xf32>, tensor<f32>) -> tensor<70000xf32>
  %c1 = tessera.mul %c, %s : (tensor<70001xf32>, tensor<f32>) -> tensor<70001xf32>
  %d1 = tessera.mul %d, %s : (tensor<100x600xf32>, tensor<f32>) -> tensor<100x600xf32>
  %e1 = tessera.sub %e, %s : (tensor<70000xf32>, tensor<f32>) -> tensor<70000xf32>
  tessera.assign %a1 to "a" : tensor<300x200xf32>
  tessera.assign %b1 to "b" : tensor<70000xf32>
  tessera.assign %c1 to "c" : tensor<70001xf32>
  tessera.assign %d1 to "d" : tensor<100x600xf32>
  tessera.assign %e1 to "e" : tensor<70000xf32>
  return %s : tensor<f32>
}

// -----

// What is made of parameters and read behind the last of these calls is made early; what is read before that stays where it is: it would
// live longer.
// CHECK-LABEL: func.func @early
// CHECK: tsched.call @[[X:k[0-9]+_cast]](
// CHECK: tsched.call @[[M:k[0-9]+_matmul]](
// CHECK: %[[R:.*]]:2 = tsched.call @[[X]]_x2(
// CHECK-NOT: _cast(
// CHECK: tsched.call @[[M]](%{{.*}}, %[[R]]#0)
// CHECK: tsched.call @[[M]](%{{.*}}, %[[R]]#1)
// CHECK: tsched.call @[[M]](%{{.*}}, %[[R]]#0)
// CHECK: return
func.func @early(%x: tensor<64x512xbf16> {tessera.name = "x"}) -> (tensor<64x512xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %a = tessera.param "a" init = #tessera.constant<0.5> : tensor<512x512xf32>
  %b = tessera.param "b" init = #tessera.constant<0.5> : tensor<512x512xf32>
  %c = tessera.param "c" init = #tessera.constant<0.5> : tensor<512x512xf32>
  %an = tessera.cast %a : tensor<512x512xf32> -> tensor<512x512xbf16>
  %bn = tessera.cast %b : tensor<512x512xf32> -> tensor<512x512xbf16>
  %cn = tessera.cast %c : tensor<512x512xf32> -> tensor<512x512xbf16>
  %ax = tessera.matmul %x, %an : (tensor<64x512xbf16>, tensor<512x512xbf16>) -> tensor<64x512xbf16>
  %bx = tessera.matmul %ax, %bn : (tensor<64x512xbf16>, tensor<512x512xbf16>) -> tensor<64x512xbf16>
  %cx = tessera.matmul %bx, %cn : (tensor<64x512xbf16>, tensor<512x512xbf16>) -> tensor<64x512xbf16>
  %y = tessera.matmul %cx, %bn : (tensor<64x512xbf16>, tensor<512x512xbf16>) -> tensor<64x512xbf16>
  return %y : tensor<64x512xbf16>
}

// -----

// Constants that one double stands for are not equal.
// CHECK-LABEL: func.func @numbers
// CHECK-DAG: tsched.call @{{k[0-9]+_add}}_x2(%arg0, %arg2)
// CHECK-DAG: tsched.call @{{k[0-9]+_add}}(%arg1)
// CHECK: return
func.func @numbers(%a: tensor<64x16xi64> {tessera.name = "a"}, %b: tensor<512xi64> {tessera.name = "b"}, %c: tensor<512xi64> {tessera.name = "c"})
    -> (tensor<64x16xi64> {tessera.name = "x"}, tensor<512xi64> {tessera.name = "y"}, tensor<512xi64> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %even = tessera.constant dense<9007199254740992> : tensor<i64>
  %odd = tessera.constant dense<9007199254740993> : tensor<i64>
  %x = tessera.add %a, %even : (tensor<64x16xi64>, tensor<i64>) -> tensor<64x16xi64>
  %y = tessera.add %b, %odd : (tensor<512xi64>, tensor<i64>) -> tensor<512xi64>
  %z = tessera.add %c, %even : (tensor<512xi64>, tensor<i64>) -> tensor<512xi64>
  return %x, %y, %z : tensor<64x16xi64>, tensor<512xi64>, tensor<512xi64>
}
