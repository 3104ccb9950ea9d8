// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt --split-input-file --no-output -tessera-verify %s 2>&1 | FileCheck %s
// RUN: not tessera-opt --split-input-file --no-output -tessera-verify --diagnostics=json %s 2>&1 | FileCheck %s --check-prefix=JSON

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
  // CHECK: [[@LINE+2]]:{{.*}}: error: [TSR-0010] value '%lfet' is not defined; did you mean '%left'?
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
  // CHECK: [TSR-0010] value '%completely_else' is not defined{{$}}
  // JSON-NOT: "fix"
  %0 = tessera.exp %completely_else : tensor<4xf32>
  return
}

// -----

// Words that the line holds twice: what is meant is what the diagnostic is about.
func.func @block(%a: tensor<4xf32>) {
  return
}
func.func @f(%blokc: tensor<4xf32>) {
  // CHECK: [[@LINE+3]]:{{.*}}: error: [TSR-0012] {{.*}}; did you mean '@block'?
  // CHECK: {{^}}             block{{$}}
  // JSON: "fix":{"column":14,"length":5,"text":"block"}
  func.call @blokc(%blokc) : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @f(%casual: tensor<1x2x3x4xf32>) {
  // CHECK: [[@LINE+3]]:{{.*}}: error: [TSR-0152] {{.*}}; did you mean 'causal'?
  // CHECK: {{^}}                                               causal{{$}}
  // JSON: "fix":{"column":48,"length":6,"text":"causal"}
  tessera.attention %casual, %casual, %casual {casual} : tensor<1x2x3x4xf32>
  return
}

// -----

// Either could be meant: the location is the function's.
// CHECK-COUNT-2: error: [TSR-0228] {{.*}}; did you mean 'tessera.data'?
// CHECK-NOT: {{^ +tessera.data$}}
// JSON: "number":"TSR-0228"{{.*}}argument 0 {{.*}}did you mean 'tessera.data'?","notes"
// JSON: "number":"TSR-0228"{{.*}}argument 1 {{.*}}did you mean 'tessera.data'?","notes"
func.func @f(%x: tensor<4xf32> {tessera.dada = "x"}, %y: tensor<4xf32> {tessera.dada = "y"}) -> (tensor<4xf32> {tessera.name = "z"})
    attributes {tessera.entry = "infer"} {
  return %x : tensor<4xf32>
}
