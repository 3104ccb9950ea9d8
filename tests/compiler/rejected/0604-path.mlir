// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  tessera_sr.export_manifest {path = "../manifest.json"}
  return
}
