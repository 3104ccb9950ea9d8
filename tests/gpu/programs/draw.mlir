// SPDX-License-Identifier: Apache-2.0
// A parameter that is large enough for a GPU to draw it itself, and one that is not f32.
func.func @total() -> (tensor<4100xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %w = tessera.param "w" init = #tessera.normal<0.5, 2.0> : tensor<4100x4100xf32>
  %v = tessera.param "v" init = #tessera.normal<0.0, 1.0> : tensor<4100xbf16>
  %s = tessera.sum %w {axes = [1]} : tensor<4100x4100xf32> -> tensor<4100xf32>
  %c = tessera.cast %v : tensor<4100xbf16> -> tensor<4100xf32>
  %y = tessera.add %s, %c : tensor<4100xf32>
  return %y : tensor<4100xf32>
}
