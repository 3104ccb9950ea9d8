// SPDX-License-Identifier: Apache-2.0
module @device {}
tessera_target.kernel @k : () -> memref<4xf32> grid 1
