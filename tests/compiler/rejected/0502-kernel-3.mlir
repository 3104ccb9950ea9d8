// SPDX-License-Identifier: Apache-2.0
tessera_target.kernel @k : (tensor<4xf32>) -> memref<4xf32> grid 1
