// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  tessera.system.export_manifest {path = ""}
  return
}
