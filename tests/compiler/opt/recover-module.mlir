// SPDX-License-Identifier: Apache-2.0
// The alias `!module_t` is no module: the last function with an error leaves no brace. The brace of
// an explicit module stays.
// RUN: not tessera-opt %s > %t.out 2> %t.err
// RUN: FileCheck %s < %t.err
// RUN: grep -c "error:" %t.err | FileCheck %s --check-prefix=COUNT
// RUN: sed -e 's/^!module_t = .*/builtin.module @m {/' -e 's/!module_t/tensor<4xf32>/' %s > %t.mlir
// RUN: echo "}" >> %t.mlir
// RUN: not tessera-opt %t.mlir > %t.out 2> %t.err
// RUN: FileCheck %s < %t.err
// RUN: grep -c "error:" %t.err | FileCheck %s --check-prefix=COUNT
// COUNT: {{^}}2{{$}}
!module_t = tensor<4xf32>

// CHECK: mlir:[[@LINE+7]]:8: error: [TSR-0009] custom op 'tessera.nge' is unknown
// CHECK: mlir:[[@LINE+2]]:8: error: [TSR-0152] tessera.exp: there is no attribute 'slop'
func.func @first(%x: !module_t) {
  %0 = tessera.exp %x {slop = 1} : !module_t
  return
}
func.func @last(%x: !module_t) {
  %0 = tessera.nge %x : !module_t
  return
}
