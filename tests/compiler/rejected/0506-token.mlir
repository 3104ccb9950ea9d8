// SPDX-License-Identifier: Apache-2.0
tessera_target.func @f workspace 64 {
  %t = tessera_target.export "step"
}
