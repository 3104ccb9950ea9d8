// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-infer-shapes %s | FileCheck %s

// Result types follow the operands, through calls and into the function's own type.
// CHECK: func.func private @layer(%{{.*}}: tensor<8x64xf32>, %{{.*}}: tensor<64x10xf32>) -> tensor<8x10xf32>
func.func private @layer(%x: tensor<8x64xf32>, %w: tensor<64x10xf32>) -> tensor<?x?xf32> {
  // CHECK: tessera.matmul {{.*}} -> tensor<8x10xf32>
  %0 = tessera.matmul %x, %w : (tensor<8x64xf32>, tensor<64x10xf32>) -> tensor<?x?xf32>
  // CHECK: tessera.relu %{{.*}} : tensor<8x10xf32>
  %1 = tessera.relu %0 : tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}

// CHECK: func.func @main({{.*}}) -> (tensor<10xf32>, tensor<8xi64>, tensor<4x20xf32>, tensor<?x10xf32>)
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64x10xf32>, %d: tensor<?x10xf32>)
    -> (tensor<?xf32>, tensor<?xi64>, tensor<4x?xf32>, tensor<?x10xf32>) {
  // CHECK: call @layer({{.*}}) : (tensor<8x64xf32>, tensor<64x10xf32>) -> tensor<8x10xf32>
  %0 = call @layer(%x, %w) : (tensor<8x64xf32>, tensor<64x10xf32>) -> tensor<?x?xf32>
  // CHECK: tessera.sum {{.*}} -> tensor<10xf32>
  %1 = tessera.sum %0 {axes = [0]} : tensor<?x?xf32> -> tensor<?xf32>
  // CHECK: tessera.argmax {{.*}} -> tensor<8xi64>
  %2 = tessera.argmax %0 {axis = 1 : i64} : tensor<?x?xf32> -> tensor<?xi64>
  // The one dim a reshape leaves open follows from the number of elements.
  // CHECK: tessera.reshape {{.*}} -> tensor<4x20xf32>
  %3 = tessera.reshape %0 : tensor<?x?xf32> -> tensor<4x?xf32>
  // Of several, all but the last are the operand's.
  // CHECK: tessera.reshape {{.*}} : tensor<8x10xf32> -> tensor<8x2x5xf32>
  %r = tessera.reshape %0 : tensor<?x?xf32> -> tensor<?x2x?xf32>
  // CHECK: tessera.reshape {{.*}} : tensor<8x10xf32> -> tensor<4x?x?xf32>
  %r5 = tessera.reshape %0 : tensor<?x?xf32> -> tensor<4x?x?xf32>
  // What nobody knows stays open.
  // CHECK: tessera.add {{.*}} -> tensor<?x10xf32>
  %4 = tessera.add %d, %1 : (tensor<?x10xf32>, tensor<?xf32>) -> tensor<?x10xf32>
  return %1, %2, %3, %4 : tensor<?xf32>, tensor<?xi64>, tensor<4x?xf32>, tensor<?x10xf32>
}

// What regions of derivatives take follows from the op; what they yield gives its results.
// CHECK-LABEL: func.func @derivatives(
// CHECK: %{{.*}}:2 = tessera.jvp %arg0, %arg1 {
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<4x3xf32>):
// CHECK-NEXT: tessera.exp %{{.*}} : tensor<4x3xf32>
// CHECK: } : tensor<4x3xf32> -> (tensor<4x3xf32>, tensor<4x3xf32>)
// CHECK: tessera.custom_derivative %{{.*}} {
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<4x3xf32>):
// CHECK: } vjp {
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<4x3xf32>, %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>):
// CHECK: } jvp {
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<4x3xf32>, %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4x3xf32>):
// CHECK: } : tensor<4x3xf32> -> tensor<4xf32>
func.func @derivatives(%x: tensor<4x3xf32>, %t: tensor<4x3xf32>) -> tensor<?xf32> {
  %y, %d = tessera.jvp %x, %t {
  ^bb0(%a: tensor<?x3xf32>):
    %0 = tessera.exp %a : tensor<?x3xf32>
    tessera.yield %0 : tensor<?x3xf32>
  } : tensor<4x3xf32> -> (tensor<?x3xf32>, tensor<?x3xf32>)
  %z = tessera.custom_derivative %d {
  ^bb0(%a: tensor<?x3xf32>):
    %0 = tessera.sum %a {axes = [1]} : tensor<?x3xf32> -> tensor<?xf32>
    tessera.yield %0 : tensor<?xf32>
  } vjp {
  ^bb0(%a: tensor<?x3xf32>, %b: tensor<?xf32>, %g: tensor<?xf32>):
    tessera.yield %a : tensor<?x3xf32>
  } jvp {
  ^bb0(%a: tensor<?x3xf32>, %b: tensor<?xf32>, %g: tensor<?x3xf32>):
    tessera.yield %b : tensor<?xf32>
  } : tensor<?x3xf32> -> tensor<?xf32>
  return %z : tensor<?xf32>
}
