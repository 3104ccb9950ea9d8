// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: number formats of at most 16 bits, quantisation. NUMERICS.md is normative.

def Tessera_EncodeOp : Tessera_ValueOp<"encode", "Declared"> {
  let summary = "converts numbers to codes of a number format";
  let description = [{
    This elementwise op rounds each number once to a number of `format`, which is "bf16", "f16", "f8E4M3FN",
    "f8E5M2", "f8E8M0FNU" or "f4E2M1FN", and returns its code: ui16 for formats of 16 bits, else ui8. `rounding`
    is "nearest_even", "toward_zero", "up", "down" or "stochastic"; the latter takes 32 random bits for each element
    from `random`, ui32 of the same shape. With `saturate`, numbers beyond the largest one become the largest one.
    compiler/graph/NUMERICS.md defines the results. This op has no gradient.
  }];
  let example = [{
func.func @example(%input: tensor<4xf32>) {
  %result = tessera.encode %input {format = "f4E2M1FN"} : tensor<4xf32> -> tensor<4xui8>
  return
}
  }];
  let arguments = (ins Tessera_Tensor:$input, Optional<Tessera_Tensor>:$random, StrAttr:$format,
      DefaultValuedAttr<StrAttr, "\"nearest_even\"">:$rounding, UnitAttr:$saturate);
}

def Tessera_DecodeOp : Tessera_ValueOp<"decode", "Declared"> {
  let summary = "converts codes of a number format to f32";
  let description = [{
    This elementwise op takes the codes that tessera.encode makes. Bits above the format's are ignored. Each number
    of a format is an f32. This op has no gradient.
  }];
  let example = [{
func.func @example(%input: tensor<4xui8>) {
  %result = tessera.decode %input {format = "f4E2M1FN"} : tensor<4xui8> -> tensor<4xf32>
  return
}
  }];
  let arguments = (ins Tessera_Tensor:$input, StrAttr:$format);
}

def Tessera_QuantScaleOp : Tessera_ValueOp<"quant_scale", "Declared"> {
  let summary = "returns a scale for each block of a tensor, from its largest magnitude";
  let description = [{
    The result has as many dims as the operand, each of which divides the operand's dim, or none: each element is
    the scale of one block. Its type is f32, bf16, f16, f8E4M3FN or f8E8M0FNU. A block of magnitudes up to m has the
    scale m / r, where r is the largest number of `format`, or the largest power of two of it if scales are
    f8E8M0FNU; `tensor_scale`, an f32 scalar, divides it again. `format` is "f8E4M3FN", "f8E5M2", "f4E2M1FN", "i8" or
    "i4". `scale_rounding` is "floor", "nearest_even" or "ceil": "floor" by default for f8E8M0FNU, "nearest_even" for
    other types. A block of zeros has scale 1. Scales are finite and positive, unless a block has NaN: its scale is
    NaN. This op has no gradient.
  }];
  let example = [{
func.func @example(%input: tensor<4x64xf32>) {
  %scale = tessera.quant_scale %input {format = "f8E4M3FN"} : tensor<4x64xf32> -> tensor<4x2xf8E8M0FNU>
  return
}
  }];
  let arguments = (ins Tessera_Tensor:$input, Optional<Tessera_Tensor>:$tensor_scale, StrAttr:$format,
      OptionalAttr<StrAttr>:$scale_rounding);
}

def Tessera_QuantOp : Tessera_ValueOp<"quant", "Declared"> {
  let summary = "divides by scales and rounds to few bits";
  let description = [{
    The result is input / scale, rounded once as `rounding` says (see tessera.encode) and saturated; NaN becomes 0 in
    formats without NaN. `scale` has a scale for each block of the input (see tessera.quant_scale) or one for all;
    `tensor_scale`, an f32 scalar, multiplies the scales. Results are f8E4M3FN, f8E5M2, i8, or ui8 with `format` =
    "f4E2M1FN" or "i4": then the last dim is half as long, and each ui8 has two neighbours, the first in its low 4
    bits. i4 and i8 are two's complement. `random` is ui32, of the shape of the input. This op has no gradient.
  }];
  let example = [{
func.func @example(%input: tensor<4x64xf32>, %scale: tensor<4x4xf8E4M3FN>, %all: tensor<f32>) {
  %result = tessera.quant %input, %scale, %all {format = "f4E2M1FN"} : (tensor<4x64xf32>, tensor<4x4xf8E4M3FN>, tensor<f32>) -> tensor<4x32xui8>
  return
}
  }];
  let arguments = (ins Tessera_Tensor:$input, Tessera_Tensor:$scale, Variadic<Tessera_Tensor>:$more,
      OptionalAttr<StrAttr>:$format, DefaultValuedAttr<StrAttr, "\"nearest_even\"">:$rounding);
}

def Tessera_DequantOp : Tessera_ValueOp<"dequant", "Declared"> {
  let summary = "multiplies numbers of few bits by scales";
  let description = [{
    The inverse of tessera.quant: takes its result, its scales, and its `tensor_scale` if it had one. The product is
    computed in f32 and rounded once to the result's type, which is f32, bf16 or f16. This op has no gradient.
  }];
  let example = [{
func.func @example(%input: tensor<4x32xui8>, %scale: tensor<4x4xf8E4M3FN>, %all: tensor<f32>) {
  %result = tessera.dequant %input, %scale, %all {format = "f4E2M1FN"} : (tensor<4x32xui8>, tensor<4x4xf8E4M3FN>, tensor<f32>) -> tensor<4x64xbf16>
  return
}
  }];
  let arguments = (ins Tessera_Tensor:$input, Tessera_Tensor:$scale, Optional<Tessera_Tensor>:$tensor_scale,
      OptionalAttr<StrAttr>:$format);
}
