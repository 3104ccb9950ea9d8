// SPDX-License-Identifier: Apache-2.0
// What is before a product is a kernel of its own, or the end of the product before it: applied as A is packed it would make a product pack an A that it reads as it lies,
// which takes longer than writing and reading it once (compiler/tile/PERFORMANCE.md).
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v3 --dump schedule | FileCheck %s

// CHECK-LABEL: func.func @before(
// CHECK: tsched.call @[[RELU:k[0-9]+_relu]](
// CHECK-NEXT: tsched.call @[[FIRST:k[0-9]+_matmul]](
// CHECK-NEXT: return
// CHECK-LABEL: func.func @between(
// CHECK: tsched.call @[[BOTH:k[0-9]+_matmul_relu]](
// CHECK-NEXT: tsched.call @{{k[0-9]+_matmul}}(
// CHECK-NEXT: return
// CHECK: tsched.func @[[RELU]]({{.*}} kind = "map"
// CHECK: tsched.func @[[FIRST]]({{.*}} kind = "matmul"
// CHECK: tsched.func @[[BOTH]]({{.*}} kind = "matmul"
func.func @before(%x: tensor<40x96xf32> {tessera.name = "x"}, %w: tensor<96x64xf32> {tessera.name = "w"})
    -> (tensor<40x64xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %r = tessera.relu %x : tensor<40x96xf32>
  %y = tessera.matmul %r, %w : (tensor<40x96xf32>, tensor<96x64xf32>) -> tensor<40x64xf32>
  return %y : tensor<40x64xf32>
}
func.func @between(%x: tensor<40x96xf32> {tessera.name = "x1"}, %v: tensor<96x96xf32> {tessera.name = "v"}, %w: tensor<96x64xf32> {tessera.name = "w1"})
    -> (tensor<40x64xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %p = tessera.matmul %x, %v : (tensor<40x96xf32>, tensor<96x96xf32>) -> tensor<40x96xf32>
  %r = tessera.relu %p : tensor<40x96xf32>
  %y = tessera.matmul %r, %w : (tensor<40x96xf32>, tensor<96x64xf32>) -> tensor<40x64xf32>
  return %y : tensor<40x64xf32>
}
