// SPDX-License-Identifier: Apache-2.0
// run: -tsched-verify -tsched-apply
func.func private @f(%x: tensor<2xf32>) {
  tsched.mesh.region "dp" of {dp = 2} {
    %0 = tessera.exp %x : tensor<2xf32>
  }
  return
}
