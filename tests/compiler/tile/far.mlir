// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v4 --dump tile | FileCheck %s

// A B that is read where it lies, and that no second level holds: its panels are wider than two lines.
// CHECK-DAG: tile.func @k0_matmul({{.*}} tile = [6, 64, 84, 1, 1201]
// The same of a B that one holds.
// CHECK-DAG: tile.func @k1_matmul({{.*}} tile = [14, 32, 84, 1, 150]
func.func @far(%a: tensor<84x1201xf32> {tessera.name = "a"}, %b: tensor<1201x1477xf32> {tessera.name = "b"},
    %c: tensor<84x150xf32> {tessera.name = "c"}, %d: tensor<150x1477xf32> {tessera.name = "d"})
    -> (tensor<84x1477xf32> {tessera.name = "y"}, tensor<84x1477xf32> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b : (tensor<84x1201xf32>, tensor<1201x1477xf32>) -> tensor<84x1477xf32>
  %z = tessera.matmul %c, %d : (tensor<84x150xf32>, tensor<150x1477xf32>) -> tensor<84x1477xf32>
  return %y, %z : tensor<84x1477xf32>, tensor<84x1477xf32>
}
