// SPDX-License-Identifier: Apache-2.0
// A name with a dot is no attribute of the op's, and passes.
func.func @f(%x: tensor<2x3xf32>) {
  %0 = tessera.cumsum %x {axis = 1, tool.note = "here"} : tensor<2x3xf32>
  %1 = tessera.cumsum %x {axis = 1, exlusive = true} : tensor<2x3xf32>
  return
}
