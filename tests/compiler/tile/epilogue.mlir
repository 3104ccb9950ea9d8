// SPDX-License-Identifier: Apache-2.0
// Functions behind a product are computed row by row, all vectors of a tile's row at once; what is short, from registers.
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v4 --dump tile | FileCheck %s

// CHECK: tile.func @[[K:.*gelu.*]](
// CHECK: %[[ROWS:.*]] = tile.local : memref<{{.*}}xf32>
// CHECK: math.fma
// CHECK: tile.store %{{.*}}, %[[ROWS]][%{{.*}}] : vector<16xf32>
// CHECK: %[[SUMS:.*]] = tile.load %[[ROWS]][%{{.*}}] : memref<{{.*}}xf32> -> vector<48xf32>
// CHECK: %[[BIASED:.*]] = arith.addf %[[SUMS]], %{{.*}} : vector<48xf32>
// CHECK-NEXT: %[[Y:.*]] = tile.gelu %[[BIASED]] : vector<48xf32>
// CHECK: tile.store %[[Y]], %{{.*}} : vector<48xf32>, memref<40x{{.*}}xf32>
// CHECK: tile.func @{{.*}}relu{{.*}}(
// CHECK-NOT: vector<48xf32>
// CHECK: tile.return
func.func @predict(%x: tensor<40x64xf32> {tessera.name = "x"}, %w: tensor<64x192xf32> {tessera.name = "w"}, %b: tensor<192xf32> {tessera.name = "b"})
    -> (tensor<40x192xf32> {tessera.name = "y"}, tensor<40x192xf32> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %m = tessera.matmul %x, %w : (tensor<40x64xf32>, tensor<64x192xf32>) -> tensor<40x192xf32>
  %u = tessera.add %m, %b : (tensor<40x192xf32>, tensor<192xf32>) -> tensor<40x192xf32>
  %y = tessera.gelu %u : tensor<40x192xf32>
  %h = tessera.mul %x, %x : tensor<40x64xf32>
  %n = tessera.matmul %h, %w : (tensor<40x64xf32>, tensor<64x192xf32>) -> tensor<40x192xf32>
  %v = tessera.add %n, %b : (tensor<40x192xf32>, tensor<192xf32>) -> tensor<40x192xf32>
  %z = tessera.relu %v : tensor<40x192xf32>
  return %y, %z : tensor<40x192xf32>, tensor<40x192xf32>
}
