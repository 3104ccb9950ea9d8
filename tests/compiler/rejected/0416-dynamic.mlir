// SPDX-License-Identifier: Apache-2.0
tsched.func @f(%a: tensor<?xf32>) -> tensor<?xf32> attributes {kind = "map"} {
  %0 = tessera.exp %a : tensor<?xf32>
  tsched.return %0 : tensor<?xf32>
}
