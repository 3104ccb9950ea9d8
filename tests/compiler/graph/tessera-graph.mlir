// SPDX-License-Identifier: Apache-2.0
// The whole stage, by its own name and by the specification's.
// RUN: tessera-opt -tessera-graph %examples/digits/digits.mlir >%t.1
// RUN: tessera-opt -pm-v1_1-legalize %examples/digits/digits.mlir >%t.2
// RUN: diff %t.1 %t.2
// RUN: FileCheck %s <%t.1
// RUN: tessera-opt -pm-v1_1-verify --no-output %examples/digits/digits.mlir

// CHECK: module @digits
// CHECK-NOT: private
// CHECK-LABEL: func.func @train
// CHECK-SAME: {tessera.data = "images"}
// CHECK: %[[LOGITS:.*]] = tessera.add {{.*}} -> tensor<64x10xf32>
// CHECK: tessera.cross_entropy_grad %[[LOGITS]]
// CHECK-COUNT-18: tessera.assign
// CHECK-NOT: tessera.assign
// CHECK: return %{{.*}} : tensor<f32>
// CHECK-LABEL: func.func @evaluate
// CHECK: tessera.argmax
// CHECK-NOT: tessera.assign
// CHECK-LABEL: func.func @predict
// CHECK-NOT: call
// CHECK: return
