// SPDX-License-Identifier: Apache-2.0
func.func @f(%x: f32) {
  %0 = tessera_target.hip_instr "v_exp_f32 $0, $2", "=v,v"(%x) : (f32) -> f32
  return
}
