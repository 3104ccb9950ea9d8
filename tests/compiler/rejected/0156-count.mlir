// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<?x4xf32, #tessera.dims<N, S>>) {
  return
}
