// SPDX-License-Identifier: Apache-2.0
// Kernels of an entry whose dim N is open: the last argument is its size, and open_grid gives the programs of a launch.
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v4 --dim N=1..64 --dump-dir %t.d --dump tile,target,program
// RUN: FileCheck %s --check-prefix=TILE < %t.d/tile.x86-64-v4.mlir
// RUN: FileCheck %s --check-prefix=TARGET < %t.d/target.x86-64-v4.mlir
// RUN: FileCheck %s --check-prefix=PROGRAM < %t.d/program.x86-64-v4.txt
// A dump continues as the source does.
// RUN: tessera-aot build %t.d/tile.x86-64-v4.mlir --from tile -o %t.again.tsb --target cpu:x86-64-v4 --dump program | FileCheck %s --check-prefix=PROGRAM

// Another entry with the same ops keeps a kernel of its own, and its program is as before.
// TILE: func.func @open
// TILE: %[[DIM:.*]] = tsched.dim : tensor<i64>
// TILE: tsched.call @k1_tanh_open(%{{.*}}, %[[DIM]]) {tsched.open_times = [1, 0, 1]}
// TILE: tile.func @k0_tanh(
// TILE-NOT: open_grid
// TILE: tile.func @k1_tanh_open(%{{.*}}: memref<64x4096xf32> {{.*}}, %[[N:.*]]: memref<i64> {{.*}}, %{{.*}}: memref<64x4096xf32> {{.*}}) grid 128
// TILE-SAME: tile.open_grid = [4096, 2048, 1]
// TILE: tile.load %[[N]]

// TARGET: tessera_target.func @exact
// TARGET-NOT: tessera_target.size
// TARGET: tessera_target.func @open
// TARGET: tessera_target.input 0 {tessera_target.times = 1 : i64} : memref<64x4096xf32>
// TARGET: tessera_target.size 0 : memref<i64>
// TARGET: tessera_target.output 0 {tessera_target.times = 1 : i64} : memref<64x4096xf32>

// PROGRAM: entry @exact
// PROGRAM-NOT: #0
// PROGRAM: entry @open
// PROGRAM-NEXT: #0 = N, 1 to 64
// PROGRAM-NEXT: #1 = 4096
// PROGRAM-NEXT: #2 = multiply #0, #1
// PROGRAM-NEXT: #3 = 2048
// PROGRAM-NEXT: #4 = divide_up #2, #3
// PROGRAM: %0 = input x : 64x4096xf32 rows #0
// PROGRAM-NEXT: %1 = size 0 : i64
// PROGRAM-NEXT: %2 = output y : 64x4096xf32 rows #0
// PROGRAM-NEXT: launch @k1_tanh_open grid 128 (#4) cost 4194304 (#{{[0-9]+}}) read %0, %1 write %2
func.func @exact(%x: tensor<64x4096xf32> {tessera.name = "x"}) -> (tensor<64x4096xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.tanh %x : tensor<64x4096xf32>
  return %y : tensor<64x4096xf32>
}
func.func @open(%x: tensor<?x4096xf32, #tessera.dims<N>> {tessera.name = "x"})
    -> (tensor<?x4096xf32, #tessera.dims<N>> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
  %y = tessera.tanh %x : tensor<?x4096xf32, #tessera.dims<N>>
  return %y : tensor<?x4096xf32, #tessera.dims<N>>
}
