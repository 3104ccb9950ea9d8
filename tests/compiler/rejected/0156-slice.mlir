// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<?xf32, #tessera.dims<N>>) {
  %0 = tessera.slice %a {start = [0], size = ["N/2"]} : tensor<?xf32, #tessera.dims<N>> -> tensor<?xf32>
  return
}
