// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  tessera_sr.checkpoint {
    func.return
  }
  return
}
