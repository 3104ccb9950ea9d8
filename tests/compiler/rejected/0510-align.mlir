// SPDX-License-Identifier: Apache-2.0
func.func @f(%g: memref<64xf32, 1>, %i: index) {
  %0 = tessera_target.load %g[%i] align 2 : memref<64xf32, 1> -> f32
  return
}
