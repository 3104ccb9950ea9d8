// SPDX-License-Identifier: Apache-2.0
func.func @f(%a: tensor<4x6xf32>) {
  %0 = torch.relu %a : tensor<4x6xf32>
  return
}
