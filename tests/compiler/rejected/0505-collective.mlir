// SPDX-License-Identifier: Apache-2.0
tessera_target.func @f workspace 64 {
  %a = tessera_target.alloc offset 0 : memref<4xf32>
  tessera_target.collective "gossip" %a, %a over "dp" ranks 4 : memref<4xf32>, memref<4xf32>
}
