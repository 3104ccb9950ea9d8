// SPDX-License-Identifier: Apache-2.0
// A kernel of several warps is one for matrix units: AMD targets have none yet.
// RUN: not tile-code hip:gfx90a code %s %t 2>&1 | FileCheck %s

// CHECK: tile-code: code generation for 'hip:gfx90a': kernel 'm' has warps; 'hip:gfx90a' has no code for matrix units
tile.func @m(%x: memref<64x64xf32>) grid 1 warps 4 {
  tile.return
}
