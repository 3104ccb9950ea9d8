// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-aot build --target=cpu:x86-64-v2 --dump=tile %s --until tile | FileCheck --check-prefix=CPU %s
// RUN: tessera-aot build --target=cpu:x86-64-v4 --dump=tile %s --until tile | FileCheck --check-prefix=CPU %s
// RUN: tessera-aot build --target=cuda:sm_80 --dump=tile %s --until tile | FileCheck --check-prefix=GPU %s
// RUN: tessera-opt -tsched-fuse -tsched-pack %s > %t.packed.mlir
// RUN: tessera-aot build --from=schedule --target=cpu:x86-64-v3 --dump=tile %t.packed.mlir --until tile | FileCheck --check-prefix=CPU %s
// RUN: not tessera-aot build --from=schedule --target=cuda:sm_80 %t.packed.mlir -o %t.tsb 2>&1 | FileCheck --check-prefix=WIDE %s

// Only targets whose vectors are no wider than a strip take strips.
// CPU: tsched.call @p0_pack(
// CPU: tile.func @p0_pack
// CPU-SAME: prepacks
// GPU-NOT: pack
// GPU: tile.func @
// GPU-NOT: prepacks
// WIDE: strips of 16 columns are narrower than a vector of 'cuda:sm_80', which has 32
func.func @predict(%x: tensor<8x96xf32> {tessera.data = "x"}) -> (tensor<8x96xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %w = tessera.param "w" init = #tessera.normal<0.0, 1.0> : tensor<96x96xf32>
  %y = tessera.matmul %x, %w : (tensor<8x96xf32>, tensor<96x96xf32>) -> tensor<8x96xf32>
  return %y : tensor<8x96xf32>
}
