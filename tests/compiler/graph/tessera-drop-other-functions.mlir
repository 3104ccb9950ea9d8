// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt -inline -tessera-drop-other-functions -split-input-file %s 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=ERR <%t.err

// CHECK-NOT: @helper
// CHECK: func.func @entry
// CHECK-NEXT: tessera.neg
// CHECK-NEXT: return
// CHECK-NOT: @unused
func.func private @helper(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tessera.neg %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @entry(%x: tensor<2xf32> {tessera.name = "x"}) -> (tensor<2xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %0 = call @helper(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @unused() {
  return
}

// -----

func.func private @again(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @again(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @entry(%x: tensor<2xf32> {tessera.name = "x"}) -> (tensor<2xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  // ERR: [[@LINE+1]]:{{[0-9]+}}: error: [TSR-0208] func.call: '@again' calls itself or was not inlined
  %0 = call @again(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// ERR: error: [TSR-0204] the module has no function with attribute tessera.entry
func.func @lonely() {
  return
}
