// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: tensor<?x4xf32, #tessera.dims<"4">>) {
  return
}
