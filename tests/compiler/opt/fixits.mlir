// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt --split-input-file --no-output %s 2>&1 | FileCheck %s
// RUN: not tessera-opt --split-input-file --no-output --diagnostics=json %s 2>&1 | FileCheck %s --check-prefix=JSON

func.func @f(%a: tensor<4x6xf32>) {
  // CHECK: [[@LINE+5]]:{{.*}}: error: [TSR-0009] {{.*}}; did you mean 'tessera.softmax_safe'?
  // CHECK-NEXT: {{^}}  %0 = tessera.softmax %a
  // CHECK-NEXT: {{^ +\^$}}
  // CHECK-NEXT: {{^}}       tessera.softmax_safe{{$}}
  // JSON: "fix":{"column":8,"length":15,"text":"tessera.softmax_safe"}
  %0 = tessera.softmax %a {axis = 1} : tensor<4x6xf32>
  return
}

// -----

func.func @f(%left: tensor<4xf32>) {
  // CHECK: [[@LINE+2]]:{{.*}}: error: [TSR-0010] use of undeclared SSA value name; did you mean '%left'?
  // JSON: "fix":{"column":22,"length":4,"text":"left"}
  %0 = tessera.exp  %lfet : tensor<4xf32>
  return
}

// -----

func.func @block(%a: tensor<4xf32>) {
  return
}
func.func @f(%a: tensor<4xf32>) {
  // CHECK: [[@LINE+2]]:{{.*}}: error: [TSR-0012] {{.*}}; did you mean '@block'?
  // JSON: "fix":{"column":9,"length":5,"text":"block"}
  call @blokc(%a) : (tensor<4xf32>) -> ()
  return
}

// -----

// Nothing is near.
func.func @f(%a: tensor<4xf32>) {
  // CHECK: [TSR-0010] use of undeclared SSA value name{{$}}
  // JSON-NOT: "fix"
  %0 = tessera.exp %completely_else : tensor<4xf32>
  return
}
