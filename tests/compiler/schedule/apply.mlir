// SPDX-License-Identifier: Apache-2.0
// Sizes that a plan chose become those of the group, and the plan is gone.
// RUN: tessera-opt -tessera-graph -tsched-fuse %s | FileCheck %s
// RUN: tessera-aot build --target=cpu:x86-64-v3 --dump=tile %s -o %t.tsb | FileCheck --check-prefix=KERNEL %s

// CHECK-NOT: tsched.module
// CHECK-NOT: @plan
// CHECK: tsched.func @k0_matmul
// CHECK-SAME: source = "user", tile = [2, 8, 16, 1, 32]
// KERNEL: tile.func @k0_matmul
// KERNEL-SAME: tile = [2, 8, 16, 1, 32]
func.func private @product(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = tessera.matmul %x, %y : tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}

func.func private @plan(%x: tensor<64x64xf32>) {
  %X = tsched.value %x : tensor<64x64xf32>
  tsched.module {
    %g = tsched.fuse @product(%X, %X)
    tsched.tile %g candidates = [[4, 8, 16, 1, 32], [2, 8, 16, 1, 32]] chosen = [2, 8, 16, 1, 32] {source = "user"}
  }
  return
}

func.func @f(%x: tensor<64x64xf32> {tessera.name = "x"}) -> (tensor<64x64xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %0 = call @product(%x, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
