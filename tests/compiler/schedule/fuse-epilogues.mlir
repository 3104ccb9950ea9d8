// SPDX-License-Identifier: Apache-2.0
// An elementwise group that alone reads a long product becomes its epilogue; short products, what has little to read, and what is read elsewhere stay apart.
// RUN: tessera-opt -tsched-fuse-epilogues %s | FileCheck %s

// CHECK-NOT: tsched.func @k0_matmul(
// CHECK: tsched.func @k0_matmul_epilogue0(%[[A:.*]]: tensor<128x64xf32>, %[[B:.*]]: tensor<128x96xf32>, %[[W:.*]]: tensor<64x96xf32>, %[[M:.*]]: tensor<64x96xf32>) -> (tensor<64x96xf32>, tensor<64x96xf32>) attributes {bytes = 180224 : i64, flops = 1591296 : i64, kind = "matmul", source = "default"} {
// CHECK-NEXT: %[[G:.*]] = tessera.matmul %[[A]], %[[B]] {transpose_a = true}
// CHECK-NEXT: %[[N:.*]] = tessera.add %[[G]], %[[M]]
// CHECK-NEXT: %[[X:.*]] = tessera.sub %[[W]], %[[N]]
// CHECK-NEXT: tsched.return %[[X]], %[[N]] : tensor<64x96xf32>, tensor<64x96xf32>
tsched.func @k0_matmul(%a: tensor<128x64xf32>, %b: tensor<128x96xf32>) -> tensor<64x96xf32> attributes {bytes = 106496 : i64, flops = 1572864 : i64, kind = "matmul", source = "default"} {
  %0 = tessera.matmul %a, %b {transpose_a = true} : (tensor<128x64xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  tsched.return %0 : tensor<64x96xf32>
}
// CHECK: tsched.func @k1_step(
tsched.func @k1_step(%w: tensor<64x96xf32>, %g: tensor<64x96xf32>, %m: tensor<64x96xf32>) -> (tensor<64x96xf32>, tensor<64x96xf32>) attributes {bytes = 122880 : i64, flops = 18432 : i64, kind = "map", source = "default"} {
  %0 = tessera.add %g, %m : tensor<64x96xf32>
  %1 = tessera.sub %w, %0 : tensor<64x96xf32>
  tsched.return %1, %0 : tensor<64x96xf32>, tensor<64x96xf32>
}
// CHECK: tsched.func @k2_matmul(
tsched.func @k2_matmul(%a: tensor<63x64xf32>, %b: tensor<63x96xf32>) -> tensor<64x96xf32> attributes {bytes = 106496 : i64, flops = 1572864 : i64, kind = "matmul", source = "default"} {
  %0 = tessera.matmul %a, %b {transpose_a = true} : (tensor<63x64xf32>, tensor<63x96xf32>) -> tensor<64x96xf32>
  tsched.return %0 : tensor<64x96xf32>
}
// CHECK: tsched.func @k3_add(
tsched.func @k3_add(%g: tensor<64x96xf32>, %m: tensor<64x96xf32>) -> tensor<64x96xf32> attributes {bytes = 73728 : i64, flops = 6144 : i64, kind = "map", source = "default"} {
  %0 = tessera.add %g, %m : tensor<64x96xf32>
  tsched.return %0 : tensor<64x96xf32>
}
// CHECK: tsched.func @k8_matmul(
tsched.func @k8_matmul(%a: tensor<128x64xf32>, %b: tensor<128x96xf32>) -> tensor<64x96xf32> attributes {bytes = 106496 : i64, flops = 1578000 : i64, kind = "matmul", source = "default"} {
  %0 = tessera.matmul %a, %b {transpose_a = true} : (tensor<128x64xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  tsched.return %0 : tensor<64x96xf32>
}
// A plan has it so.
// CHECK: tsched.func @k4_matmul(
tsched.func @k4_matmul(%a: tensor<128x64xf32>, %b: tensor<128x96xf32>) -> tensor<64x96xf32> attributes {bytes = 106496 : i64, flops = 1572864 : i64, kind = "matmul", source = "user"} {
  %0 = tessera.matmul %a, %b {transpose_a = true} : (tensor<128x64xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  tsched.return %0 : tensor<64x96xf32>
}
// Of bf16, where a step of the loop may take two.
// CHECK: tsched.func @k5_matmul_epilogue1(%{{.*}}: tensor<128x64xbf16>, %{{.*}}: tensor<128x96xbf16>, %{{.*}}: tensor<64x96xf32>, %{{.*}}: tensor<64x96xf32>)
// CHECK-NEXT: %[[H:.*]] = tessera.matmul
// CHECK-NEXT: tessera.cast %[[H]] : tensor<64x96xbf16> -> tensor<64x96xf32>
tsched.func @k5_matmul(%a: tensor<128x64xbf16>, %b: tensor<128x96xbf16>) -> tensor<64x96xbf16> attributes {bytes = 94208 : i64, flops = 3145728 : i64, kind = "matmul", source = "default"} {
  %0 = tessera.matmul %a, %b {transpose_a = true} : (tensor<128x64xbf16>, tensor<128x96xbf16>) -> tensor<64x96xbf16>
  tsched.return %0 : tensor<64x96xbf16>
}
// CHECK: tsched.func @k6_matmul(
tsched.func @k6_matmul(%a: tensor<127x64xbf16>, %b: tensor<127x96xbf16>) -> tensor<64x96xbf16> attributes {bytes = 94208 : i64, flops = 3145728 : i64, kind = "matmul", source = "default"} {
  %0 = tessera.matmul %a, %b {transpose_a = true} : (tensor<127x64xbf16>, tensor<127x96xbf16>) -> tensor<64x96xbf16>
  tsched.return %0 : tensor<64x96xbf16>
}
// CHECK: tsched.func @k7_step(
tsched.func @k7_step(%w: tensor<64x96xf32>, %h: tensor<64x96xbf16>, %m: tensor<64x96xf32>) -> (tensor<64x96xf32>, tensor<64x96xf32>) attributes {bytes = 110592 : i64, flops = 24576 : i64, kind = "map", source = "default"} {
  %g = tessera.cast %h : tensor<64x96xbf16> -> tensor<64x96xf32>
  %0 = tessera.add %g, %m : tensor<64x96xf32>
  %1 = tessera.sub %w, %0 : tensor<64x96xf32>
  tsched.return %1, %0 : tensor<64x96xf32>, tensor<64x96xf32>
}

// Equal pairs share a group.
// CHECK: func.func @long(
// CHECK-NEXT: %[[ONE:.*]]:2 = tsched.call @k0_matmul_epilogue0(%arg0, %arg1, %arg2, %arg3)
// CHECK-NEXT: %[[TWO:.*]]:2 = tsched.call @k0_matmul_epilogue0(%arg0, %arg1, %[[ONE]]#0, %[[ONE]]#1)
// CHECK-NEXT: return %[[TWO]]#0, %[[TWO]]#1
func.func @long(%a: tensor<128x64xf32> {tessera.name = "a"}, %b: tensor<128x96xf32> {tessera.name = "b"}, %w: tensor<64x96xf32> {tessera.name = "w"}, %m: tensor<64x96xf32> {tessera.name = "m"})
    -> (tensor<64x96xf32> {tessera.name = "x"}, tensor<64x96xf32> {tessera.name = "n"}) attributes {tessera.entry = "infer"} {
  %g = tsched.call @k0_matmul(%a, %b) : (tensor<128x64xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  %s:2 = tsched.call @k1_step(%w, %g, %m) : (tensor<64x96xf32>, tensor<64x96xf32>, tensor<64x96xf32>) -> (tensor<64x96xf32>, tensor<64x96xf32>)
  %h = tsched.call @k0_matmul(%a, %b) : (tensor<128x64xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  %t:2 = tsched.call @k1_step(%s#0, %h, %s#1) : (tensor<64x96xf32>, tensor<64x96xf32>, tensor<64x96xf32>) -> (tensor<64x96xf32>, tensor<64x96xf32>)
  return %t#0, %t#1 : tensor<64x96xf32>, tensor<64x96xf32>
}

// CHECK: func.func @apart(
// CHECK: tsched.call @k2_matmul(
// CHECK: tsched.call @k1_step(
// CHECK: tsched.call @k4_matmul(
// CHECK: tsched.call @k1_step(
// CHECK: tsched.call @k4_matmul(
// CHECK: tsched.call @k3_add(
// CHECK: return
func.func @apart(%a: tensor<63x64xf32> {tessera.name = "a1"}, %b: tensor<63x96xf32> {tessera.name = "b1"}, %w: tensor<64x96xf32> {tessera.name = "w1"}, %m: tensor<64x96xf32> {tessera.name = "m1"}, %c: tensor<128x64xf32> {tessera.name = "c1"}, %d: tensor<128x96xf32> {tessera.name = "d1"})
    -> (tensor<64x96xf32> {tessera.name = "x1"}, tensor<64x96xf32> {tessera.name = "n1"}, tensor<64x96xf32> {tessera.name = "y1"}) attributes {tessera.entry = "infer"} {
  %g = tsched.call @k2_matmul(%a, %b) : (tensor<63x64xf32>, tensor<63x96xf32>) -> tensor<64x96xf32>
  %s:2 = tsched.call @k1_step(%w, %g, %m) : (tensor<64x96xf32>, tensor<64x96xf32>, tensor<64x96xf32>) -> (tensor<64x96xf32>, tensor<64x96xf32>)
  %h = tsched.call @k4_matmul(%c, %d) : (tensor<128x64xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  %t:2 = tsched.call @k1_step(%s#0, %h, %s#1) : (tensor<64x96xf32>, tensor<64x96xf32>, tensor<64x96xf32>) -> (tensor<64x96xf32>, tensor<64x96xf32>)
  %i = tsched.call @k4_matmul(%c, %d) : (tensor<128x64xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  %y = tsched.call @k3_add(%i, %m) : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
  return %t#0, %t#1, %y : tensor<64x96xf32>, tensor<64x96xf32>, tensor<64x96xf32>
}

// Read by a second call, or returned; of bf16.
// CHECK: func.func @shared(
// CHECK: tsched.call @k4_matmul(
// CHECK: tsched.call @k6_matmul(
// CHECK: tsched.call @k7_step(
// CHECK: tsched.call @k5_matmul_epilogue1(%arg3, %arg4, %{{.*}}#0, %{{.*}}#1)
// CHECK: return
func.func @shared(%a: tensor<127x64xbf16> {tessera.name = "a2"}, %b: tensor<127x96xbf16> {tessera.name = "b2"}, %w: tensor<64x96xf32> {tessera.name = "w2"}, %c: tensor<128x64xbf16> {tessera.name = "c2"}, %d: tensor<128x96xbf16> {tessera.name = "d2"}, %e: tensor<128x64xf32> {tessera.name = "e2"}, %f: tensor<128x96xf32> {tessera.name = "f2"})
    -> (tensor<64x96xf32> {tessera.name = "x2"}, tensor<64x96xf32> {tessera.name = "n2"}) attributes {tessera.entry = "infer"} {
  %m = tsched.call @k4_matmul(%e, %f) : (tensor<128x64xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  %g = tsched.call @k6_matmul(%a, %b) : (tensor<127x64xbf16>, tensor<127x96xbf16>) -> tensor<64x96xbf16>
  %s:2 = tsched.call @k7_step(%w, %g, %m) : (tensor<64x96xf32>, tensor<64x96xbf16>, tensor<64x96xf32>) -> (tensor<64x96xf32>, tensor<64x96xf32>)
  %h = tsched.call @k5_matmul(%c, %d) : (tensor<128x64xbf16>, tensor<128x96xbf16>) -> tensor<64x96xbf16>
  %t:2 = tsched.call @k7_step(%s#0, %h, %s#1) : (tensor<64x96xf32>, tensor<64x96xbf16>, tensor<64x96xf32>) -> (tensor<64x96xf32>, tensor<64x96xf32>)
  return %t#0, %t#1 : tensor<64x96xf32>, tensor<64x96xf32>
}

// CHECK: func.func @read_twice(
// CHECK: tsched.call @[[P:k8_matmul]](
// CHECK: tsched.call @k1_step(
// CHECK: return
func.func @read_twice(%a: tensor<128x64xf32> {tessera.name = "a3"}, %b: tensor<128x96xf32> {tessera.name = "b3"}, %w: tensor<64x96xf32> {tessera.name = "w3"}, %m: tensor<64x96xf32> {tessera.name = "m3"})
    -> (tensor<64x96xf32> {tessera.name = "x3"}, tensor<64x96xf32> {tessera.name = "n3"}, tensor<64x96xf32> {tessera.name = "g3"}) attributes {tessera.entry = "infer"} {
  %g = tsched.call @k8_matmul(%a, %b) : (tensor<128x64xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  %s:2 = tsched.call @k1_step(%w, %g, %m) : (tensor<64x96xf32>, tensor<64x96xf32>, tensor<64x96xf32>) -> (tensor<64x96xf32>, tensor<64x96xf32>)
  return %s#0, %s#1, %g : tensor<64x96xf32>, tensor<64x96xf32>, tensor<64x96xf32>
}

// Little to read beside it.
// CHECK: func.func @little(
// CHECK: tsched.call @k8_matmul(
// CHECK: tsched.call @k3_add(
func.func @little(%a: tensor<128x64xf32> {tessera.name = "a4"}, %b: tensor<128x96xf32> {tessera.name = "b4"}, %m: tensor<64x96xf32> {tessera.name = "m4"})
    -> (tensor<64x96xf32> {tessera.name = "x4"}) attributes {tessera.entry = "infer"} {
  %g = tsched.call @k8_matmul(%a, %b) : (tensor<128x64xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  %s = tsched.call @k3_add(%g, %m) : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
  return %s : tensor<64x96xf32>
}
