// SPDX-License-Identifier: Apache-2.0
// run: -tsched-verify -tsched-apply
func.func private @f(%x: tensor<2x2xf32>) {
  %X = tsched.value %x : tensor<2x2xf32>
  tsched.layout %X {partition = ["batch"]}
  return
}
