// SPDX-License-Identifier: Apache-2.0
// Named dims and constraints that hold pass, and tessera-drop-constraints removes them.
// RUN: tessera-opt --split-input-file -tessera-constraints %s | FileCheck %s
// RUN: tessera-opt --split-input-file -tessera-constraints -tessera-drop-constraints %s | FileCheck %s --check-prefix=DROP
// DROP-NOT: tessera.constraints
// DROP-NOT: tessera.dims = ["B"

// CHECK-LABEL: @known
func.func @known(%x: tensor<4x768xf32> {tessera.dims = ["B", "D"]}, %y: tensor<12x64xf32> {tessera.dims = ["H", "K"]}) -> (tensor<4x768xf32> {tessera.dims = ["B", "D"]})
    attributes {tessera.constraints = ["D % 8 == 0", "B in 1..=4096", "H * K == D", "D != B", "K >= H", "2 * K < D", "D - 12*K == 0"]} {
  return %x : tensor<4x768xf32>
}

// -----

// Each size of an anchor, and a range that is proved.
// CHECK-LABEL: @open
module attributes {tessera.dim_sizes = {N = [8, 16], S = {low = 2 : i64, high = 64 : i64}}} {
  func.func @open(%x: tensor<?x?xf32, #tessera.dims<N, S>>) -> tensor<?x?xf32, #tessera.dims<N, S>>
      attributes {tessera.constraints = ["N % 8 == 0", "S <= 64", "N * S >= 16", "N + S < 128"]} {
    return %x : tensor<?x?xf32, #tessera.dims<N, S>>
  }
}

// -----

// A symbol without a size is not compared.
// CHECK-LABEL: @unknown
func.func @unknown(%x: tensor<?x6xf32, #tessera.dims<N>> {tessera.dims = ["N", "D"]}) attributes {tessera.constraints = ["N % 8 == 0", "N >= D"]} {
  return
}
