// SPDX-License-Identifier: Apache-2.0
func.func @f() {
  tessera_sr.export_manifest {include = ["mesh", "weights"]}
  return
}
