// SPDX-License-Identifier: Apache-2.0
tessera_target.func @f workspace 128 {
  %a = tessera_target.alloc offset 0 : memref<4xf32>
  %b = tessera_target.alloc offset 64 : memref<16xf32>
  tessera_target.collective "reduce_scatter" %a, %b over "dp" ranks 4 : memref<4xf32>, memref<16xf32>
}
