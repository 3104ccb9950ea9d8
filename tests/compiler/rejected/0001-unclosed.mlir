// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4xf32>) {
  return
