// SPDX-License-Identifier: Apache-2.0
// What reads much beside a product is computed while the next tile multiplies: vector by vector, each between steps of k; its operands are asked for a tile ahead.
// RUN: tessera-aot build %s --until tile --target cpu:x86-64-v4 --dump tile | FileCheck %s
// The same of what native numerics leave apart for GPUs.
// RUN: tessera-aot build %s --until tile --target cpu:x86-64-v4 --numerics native --dump tile | FileCheck %s
// Not with 16 registers: the sums would go to the stack and back.
// RUN: tessera-aot build %s --until tile --target cpu:x86-64-v3 --numerics native --dump tile | FileCheck %s --check-prefix=FEW

// CHECK: tile.func @{{.*matmul.*}}(%{{.*}}: memref<128x256xf32>, %{{.*}}: memref<128x192xf32>, %{{.*}}: memref<256x192xf32>,
// CHECK: %[[DEFERRED:.*]] = tile.local : memref<384xf32>
// The first tile defers its sums; the next ones use them, too.
// CHECK-COUNT-24: tile.store %{{.*}}, %[[DEFERRED]][%{{.*}}] : vector<16xf32>
// CHECK: scf.for {{.*}} iter_args
// CHECK: tile.prefetch %{{.*}} {later} : memref<256x192xf32>
// CHECK: tile.load %[[DEFERRED]][
// CHECK: arith.divf %{{.*}} : vector<16xf32>
// CHECK: tile.store %{{.*}} : vector<16xf32>, memref<256x192xf32>
// CHECK: scf.for {{.*}} iter_args
// CHECK: math.fma
// CHECK: tile.load %[[DEFERRED]][
// CHECK: arith.divf %{{.*}} : vector<16xf32>
// CHECK: scf.for {{.*}} iter_args
// CHECK: math.fma
// CHECK-COUNT-24: tile.store %{{.*}}, %[[DEFERRED]][%{{.*}}] : vector<16xf32>
// The last one of a panel is due behind it.
// CHECK-NOT: math.fma
// CHECK: tile.load %[[DEFERRED]][
// FEW: tile.func @k{{[0-9]+}}_matmul(%{{.*}}: memref<128x256xf32>, %{{.*}}: memref<128x192xf32>, %{{.*}}: memref<256x192xf32>)
func.func @f(%x: tensor<128x256xf32> {tessera.data = "x"}, %t: tensor<128x192xf32> {tessera.data = "t"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.uniform<-0.05, 0.05> : tensor<256x192xf32>
  %y = tessera.matmul %x, %w : (tensor<128x256xf32>, tensor<256x192xf32>) -> tensor<128x192xf32>
  %e = tessera.sub %y, %t : tensor<128x192xf32>
  %s = tessera.mul %e, %e : tensor<128x192xf32>
  %l = tessera.mean %s {axes = [0, 1]} : tensor<128x192xf32> -> tensor<f32>
  tessera.minimize %l {optimizer = #tessera.adamw<lr = 1.0e-4, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 1.0e-2>} : tensor<f32>
  return %l : tensor<f32>
}
