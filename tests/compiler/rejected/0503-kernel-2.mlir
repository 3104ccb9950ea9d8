// SPDX-License-Identifier: Apache-2.0
module @device { tile.func @k(%x: memref<4xf32>) grid 2 { tile.return } }
tessera_target.kernel @k : () -> memref<4xf32> grid 1
