// SPDX-License-Identifier: Apache-2.0
tessera_target.kernel @k : () -> memref<4xf32> grid 1 requires = "sm_9000"
