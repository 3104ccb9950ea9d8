// SPDX-License-Identifier: Apache-2.0
// A function with an error does not hide the aliases after it.
// RUN: not tessera-opt %s > %t.out 2> %t.err
// RUN: FileCheck %s < %t.err
// RUN: grep -c "error:" %t.err | FileCheck %s --check-prefix=COUNT
// COUNT: {{^}}4{{$}}

!four = tensor<4xf32>

// CHECK: recover-aliases.mlir:[[@LINE+2]]:8: error: [TSR-0009] custom op 'tessera.nge' is unknown
func.func @first(%x: !four) {
  %0 = tessera.nge %x : !four
  return
}

!five = tensor<5xf32>

// CHECK: recover-aliases.mlir:[[@LINE+2]]:8: error: [TSR-0009] custom op 'tessera.epx' is unknown
func.func @second(%x: !five) {
  %0 = tessera.epx %x : !five
  return
}

// "!six = tensor<6xf32>" in a comment is no alias.
// CHECK: recover-aliases.mlir:[[@LINE+2]]:36: error: [TSR-0014] undefined symbol alias id 'six'
func.func @third(%x: !five) {
  %0 = tessera.exp %x : tensor<!six>
  return
}

// CHECK: recover-aliases.mlir:[[@LINE+2]]:8: error: [TSR-0009] custom op 'tessera.lgo' is unknown
func.func @last(%x: !five) {
  %0 = tessera.lgo %x : !five
  return
}
