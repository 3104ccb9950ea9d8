// SPDX-License-Identifier: Apache-2.0
module attributes {tessera.virtual_ranks = 8 : i64} {
  tessera_target.func @f workspace 64 {
    %a = tessera_target.alloc offset 0 : memref<4xf32>
    %own = tessera_target.vrank_alloc offset 0 : memref<1xf32>
    tessera_target.collective "all_gather" %a, %own over "dp" ranks 4 : memref<4xf32>, memref<1xf32>
  }
}
