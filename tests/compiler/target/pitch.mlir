// SPDX-License-Identifier: Apache-2.0
// Kernels that do not agree on a buffer's pitch have no host program; nor has an entry that gives away what lies with one.
// RUN: rm -rf %t.levels && tessera-aot build %s --until target --target cuda:sm_90a --numerics native --dump tile,target --dump-dir %t.levels
// RUN: FileCheck %s --input-file=%t.levels/target.sm_90a.mlir
// CHECK: tessera_target.func @chain workspace 3407872
// CHECK: %[[H:.*]] = tessera_target.alloc offset 0 : memref<2048x776xbf16, strided<[832, 1]>>
// CHECK: tessera_target.launch @[[FIRST:.*]](%{{.*}}, %{{.*}}) writes(%[[H]]) : (memref<2048x512xbf16>, memref<512x776xbf16>) -> memref<2048x776xbf16, strided<[832, 1]>>
// CHECK: tessera_target.kernel @[[FIRST]] : (memref<2048x512xbf16>, memref<512x776xbf16>) -> memref<2048x776xbf16, strided<[832, 1]>>
// RUN: sed 's/%arg0: memref<2048x776xbf16, strided<\[832, 1\]>>/%arg0: memref<2048x776xbf16, strided<[896, 1]>>/; s/%arg0\[\(.*\) : memref<2048x776xbf16, strided<\[832, 1\]>>/%arg0[\1 : memref<2048x776xbf16, strided<[896, 1]>>/' %t.levels/tile.sm_90a.mlir > %t.other.mlir
// RUN: not tessera-aot build %t.other.mlir --from tile -o %t.tsb --target cuda:sm_90a --numerics native 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: @chain: argument 0 of kernel '{{.*}}' expects pitch 896, but its buffer has pitch 832
// RUN: sed '/^ *func.func\|^ *return/!b; s/return %1 : tensor<2048x512xbf16>/return %1, %0 : tensor<2048x512xbf16>, tensor<2048x776xbf16>/; s/\(func.func @chain.*-> \)(\(.*\)) attr/\1(\2, tensor<2048x776xbf16> {tessera.name = "z"}) attr/' %t.levels/tile.sm_90a.mlir > %t.given.mlir
// RUN: not tessera-aot build %t.given.mlir --from tile -o %t.tsb --target cuda:sm_90a --numerics native 2>&1 | FileCheck %s --check-prefix=GIVEN
// GIVEN: @chain: func.return reads a buffer with pitch 832; expected a dense one
func.func @chain(%x: tensor<2048x512xbf16> {tessera.name = "x"}, %v: tensor<512x776xbf16> {tessera.name = "v"}, %w: tensor<776x512xbf16> {tessera.name = "w"})
    -> (tensor<2048x512xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %p = tessera.matmul %x, %v : (tensor<2048x512xbf16>, tensor<512x776xbf16>) -> tensor<2048x776xbf16>
  %y = tessera.matmul %p, %w : (tensor<2048x776xbf16>, tensor<776x512xbf16>) -> tensor<2048x512xbf16>
  return %y : tensor<2048x512xbf16>
}
