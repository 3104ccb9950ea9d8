// SPDX-License-Identifier: Apache-2.0
// With numerics "native" a GPU's lanes move 16 bytes of a row at a time, where all rows begin at a multiple of 8 elements.
// RUN: tessera-aot build %s --until tile --target cuda:sm_80,cpu:x86-64-v3 --numerics native --dump tile > %t && FileCheck %s --input-file=%t
// RUN: FileCheck %s --check-prefix=CPU --input-file=%t
// RUN: tessera-aot build %s --until tile --target cuda:sm_80 --dump tile | FileCheck %s --check-prefix=PORTABLE

// CHECK: ---- tile cuda:sm_80
// Lanes of several warps hold a row: there is no loop over it, no memory of its own. It is read once.
// CHECK: tile.func @k0_
// CHECK-SAME: registers 128
// CHECK-SAME: tile.cooperative = 8 : i64
// CHECK-NOT: tile.local
// CHECK-COUNT-2: tile.load %arg0[{{.*}}] {tile.blocked} : memref<50x4352xf32> -> vector<2048xf32>
// What is behind the last whole vector is masked, in the same order.
// CHECK: vector.create_mask %c256 {tile.blocked}
// CHECK: tile.load %arg0[{{.*}}] mask %{{.*}} {tile.blocked}
// CHECK: vector.reduction <maximumf>, %{{.*}} : vector<2048xf32> into f32
// CHECK-NOT: tile.load %arg0
// CHECK-COUNT-3: math.exp
// CHECK-NOT: math.exp
// CHECK: vector.reduction <add>
// CHECK-COUNT-2: tile.store {{.*}} {tile.blocked} : vector<2048xf32>
// CHECK: tile.store {{.*}} mask {{.*}} {tile.blocked} : vector<2048xf32>
// Rows that begin anywhere are gone over in a loop.
// CHECK: tile.func @k1_
// CHECK-NOT: tile.cooperative
// CHECK-NOT: tile.blocked
// CHECK: scf.for
// What is read of 16 bits is held so, and widened in each stage.
// CHECK: tile.func @k2_
// CHECK-SAME: tile.cooperative = 2 : i64
// CHECK-NOT: tile.local
// CHECK-COUNT-4: tile.load %arg0[{{.*}}] {tile.blocked} : memref<50x2304xbf16> -> vector<512xbf16>
// CHECK: tile.load %arg0[{{.*}}] mask
// CHECK-NOT: tile.load %arg0{{.*}} vector
// Only a row whose squares have overflowed is read again, one element at a time.
// CHECK: scf.for
// CHECK: tile.load %arg0[{{.*}}] : memref<50x2304xbf16> -> bf16
// CHECK: {tile.rare}
// CHECK-NOT: tile.load %arg0
// CHECK: arith.extf {{.*}} {tile.again = 1 : i64}
// CHECK: tile.store {{.*}} {tile.blocked} : vector<512xbf16>
// What is costly is held, too: one exponential of the device for each element.
// CHECK: tile.func @k3_
// CHECK-SAME: tile.cooperative = 4 : i64
// CHECK-COUNT-3: math.exp {{.*}}tile.approximate
// CHECK-NOT: math.exp
// A row of logits is gone over in a loop; each lane keeps its own maximum and sum. The gradient is one more walk, and a store at the label.
// CHECK: tile.func @k4_cast_cross_entropy(
// CHECK-SAME: tile.cooperative = 8 : i64
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (vector<256xf32>, vector<256xf32>)
// CHECK: tile.load %arg0[{{.*}}] {tile.blocked} : memref<50x9000xbf16> -> vector<2048xbf16>
// CHECK-COUNT-9: math.exp {{.*}}tile.approximate
// CHECK: vector.create_mask %c808 {tile.blocked} : vector<2048xi1>
// CHECK: vector.reduction <maxnumf>, %{{.*}} : vector<256xf32> into f32
// CHECK: vector.reduction <add>
// CHECK: math.log
// CHECK: tile.func @k5_cast_cross_entropy_grad_cast(
// CHECK-SAME: tile.cooperative = 16 : i64
// The row lies in shared memory between its walks.
// CHECK: tile.local {tile.own} : memref<12288xbf16>
// CHECK-COUNT-3: tile.fetch %arg0
// CHECK: scf.for
// CHECK: tile.fetched but 0
// CHECK-NOT: tile.load %arg0[{{.*}}] {tile.blocked}
// CHECK-NOT: tile.fetch %arg0
// CHECK: tile.store {{.*}} {tile.blocked} : vector<4096xbf16>, memref<50x9000xbf16>
// CHECK: tile.barrier
// CHECK: tile.store {{.*}} : bf16
// Sums over rows are taken in the walk over them: a program has several rows, and what it has of a sum from one to the next. Those are added by
// a further kernel. The next row is fetched meanwhile, its scalars are read. Four programs share a block and leave one part of each sum.
// CHECK: tile.func @k6_{{[a-z_0-9]*}}(
// CHECK-SAME: grid 148 registers 80
// CHECK-SAME: tile.block_programs = 4 : i64
// CHECK-SAME: tile.contract
// CHECK-SAME: tile.cooperative = 3 : i64
// CHECK-COUNT-2: tile.fetch %arg{{[02]}}[{{.*}}] to %{{.*}} elements 768
// CHECK: tile.fetched but 1
// CHECK: tile.load %arg1[{{.*}}] : memref<600x1xf32> -> f32
// CHECK: scf.for {{.*}} -> (vector<768xf32>, vector<768xf32>, index, f32)
// CHECK-COUNT-2: tile.fetch %arg{{[02]}}[{{.*}}] to %{{.*}} elements 768
// CHECK: tile.fetched but 1
// CHECK: tile.load %arg1[{{.*}}] : memref<600x1xf32> -> f32
// CHECK-NOT: tile.load %arg
// CHECK-COUNT-1: vector.reduction
// CHECK: scf.yield
// CHECK: tile.fetched but 0
// CHECK: tile.add_programs
// CHECK: tile.store {{.*}} mask {{.*}} {tile.blocked} : vector<768xf32>, memref<37x768xf32>
// CHECK: tile.add_programs
// CHECK: tile.store {{.*}} mask {{.*}} {tile.blocked} : vector<768xf32>, memref<37x768xf32>
// CHECK: tile.func @k6_{{[a-z_0-9]*}}_sums({{.*}}memref<768xf32>) grid 96
// CHECK-SAME: tile.cooperative = 16 : i64
// CHECK: vector.step
// CHECK-COUNT-2: tile.gather
// CHECK-COUNT-4: tile.butterfly
// CHECK-COUNT-2: tile.store {{.*}} : vector<8xf32>, memref<768xf32>
// Where more is read of parameters than of a row, a program has several rows, too, and fetches the next one.
// CHECK: tile.func @k7_{{[a-z_0-9]*}}(
// CHECK-SAME: grid 528 registers 128
// CHECK-SAME: tile.cooperative = 4 : i64
// CHECK-COUNT-3: tile.fetch %arg0[{{.*}}] to %{{.*}} elements 1024 : memref<2112x3072xbf16>
// CHECK: scf.for {{.*}} -> (index)
// CHECK-COUNT-3: tile.fetch %arg0
// CHECK-NOT: tile.load %arg0{{.*}} vector
// CHECK-COUNT-6: tile.load %arg{{[12]}}
// CHECK: scf.yield
// CHECK: ---- tile cpu:x86-64-v3
// CPU: ---- tile cpu:x86-64-v3
// CPU-NOT: tile.blocked
// PORTABLE-NOT: tile.blocked
func.func @even(%x: tensor<50x4352xf32> {tessera.name = "x"}) -> (tensor<50x4352xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<50x4352xf32>
  return %y : tensor<50x4352xf32>
}
func.func @odd(%x: tensor<50x2307xf32> {tessera.name = "x"}) -> (tensor<50x2307xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<50x2307xf32>
  return %y : tensor<50x2307xf32>
}
func.func @held(%x: tensor<50x2304xbf16> {tessera.name = "hx"}, %s: tensor<2304xf32> {tessera.name = "hs"}) -> (tensor<50x2304xbf16> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %f = tessera.cast %x : tensor<50x2304xbf16> -> tensor<50x2304xf32>
  %r = tessera.rmsnorm_safe %f, %s {axes = [1], eps = 1.0e-5} : (tensor<50x2304xf32>, tensor<2304xf32>) -> tensor<50x2304xf32>
  %y = tessera.cast %r : tensor<50x2304xf32> -> tensor<50x2304xbf16>
  return %y : tensor<50x2304xbf16>
}
func.func @costly(%x: tensor<50x2304xbf16> {tessera.name = "cx"}) -> (tensor<50x2304xbf16> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<50x2304xbf16>
  return %y : tensor<50x2304xbf16>
}
func.func @cross(%x: tensor<50x9000xbf16> {tessera.name = "ex"}, %n: tensor<50xi64> {tessera.name = "en"}, %d: tensor<50xf32> {tessera.name = "ed"})
    -> (tensor<50xf32> {tessera.name = "y"}, tensor<50x9000xbf16> {tessera.name = "dx"}) attributes {tessera.entry = "infer"} {
  %f = tessera.cast %x : tensor<50x9000xbf16> -> tensor<50x9000xf32>
  %y = tessera.cross_entropy %f, %n : (tensor<50x9000xf32>, tensor<50xi64>) -> tensor<50xf32>
  %g = tessera.cross_entropy_grad %f, %n, %d : (tensor<50x9000xf32>, tensor<50xi64>, tensor<50xf32>) -> tensor<50x9000xf32>
  %h = tessera.cast %g : tensor<50x9000xf32> -> tensor<50x9000xbf16>
  return %y, %h : tensor<50xf32>, tensor<50x9000xbf16>
}
func.func @norm_gradient(%x: tensor<600x768xf32> {tessera.name = "gx"}, %r: tensor<600x1xf32> {tessera.name = "gr"}, %g: tensor<600x768xbf16> {tessera.name = "gg"})
    -> (tensor<600x768xf32> {tessera.name = "dx"}, tensor<768xf32> {tessera.name = "ds"}, tensor<768xf32> {tessera.name = "db"}) attributes {tessera.entry = "infer"} {
  %n = tessera.mul %x, %r : (tensor<600x768xf32>, tensor<600x1xf32>) -> tensor<600x768xf32>
  %h = tessera.cast %g : tensor<600x768xbf16> -> tensor<600x768xf32>
  %p = tessera.mul %h, %n : tensor<600x768xf32>
  %m = tessera.mean %p {axes = [1]} : tensor<600x768xf32> -> tensor<600xf32>
  %e = tessera.reshape %m : tensor<600xf32> -> tensor<600x1xf32>
  %a = tessera.mul %n, %e : (tensor<600x768xf32>, tensor<600x1xf32>) -> tensor<600x768xf32>
  %d = tessera.sub %h, %a : tensor<600x768xf32>
  %s = tessera.sum %p {axes = [0]} : tensor<600x768xf32> -> tensor<768xf32>
  %b = tessera.sum %h {axes = [0]} : tensor<600x768xf32> -> tensor<768xf32>
  return %d, %s, %b : tensor<600x768xf32>, tensor<768xf32>, tensor<768xf32>
}
func.func @many(%x: tensor<2112x3072xbf16> {tessera.name = "mx"}, %s: tensor<3072xf32> {tessera.name = "ms"}, %b: tensor<3072xf32> {tessera.name = "mb"})
    -> (tensor<2112x3072xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %f = tessera.cast %x : tensor<2112x3072xbf16> -> tensor<2112x3072xf32>
  %n = tessera.layernorm_safe %f, %s, %b {axes = [1], eps = 1.0e-5} : (tensor<2112x3072xf32>, tensor<3072xf32>, tensor<3072xf32>) -> tensor<2112x3072xf32>
  %y = tessera.cast %n : tensor<2112x3072xf32> -> tensor<2112x3072xbf16>
  return %y : tensor<2112x3072xbf16>
}
