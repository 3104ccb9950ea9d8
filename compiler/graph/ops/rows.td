// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: softmax, norms, attention.

// ---- rows: softmax and norms ---------------------------------------------------------------

def Tessera_SoftmaxSafeOp : Tessera_ValueOp<"softmax_safe", [AllTypesMatch<["input", "result"]>]> {
  let summary = "exp(x - max) over its sum along the axis; 0 where all are -inf";
  let description = [{
    Of floats, along one axis; the sum in a fixed order. The largest element is taken off first, so that
    nothing overflows: Milakov and Gimelshein 2018, section 2.
  }];
  let arguments = (ins Tessera_Tensor:$input, I64Attr:$axis);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Tessera_LogsumexpSafeOp : Tessera_ReduceOp<"logsumexp_safe",
    "log of the sum of exponentials over the axes, by way of the largest"> {
  let description = [{
    Of floats; `axes` ascend and are removed. -inf where all elements are, and of nothing.
  }];
}

class Tessera_NormOp<string mnemonic, string what> : Tessera_ManyOp<mnemonic, what> {
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64ArrayAttr:$axes,
      DefaultValuedAttr<F64Attr, "1.0e-5">:$eps);
}
def Tessera_LayernormSafeOp : Tessera_NormOp<"layernorm_safe",
    "(x - mean) / sqrt(variance + eps) over the axes, times scale, plus bias"> {
  let description = [{
    Operands: x of floats, then perhaps a scale, then perhaps a bias, of x's element type, which broadcast
    to x's shape. `axes` ascend. The variance is the mean of squares around the mean, not the difference of
    two large sums. Ba et al. 2016, section 3.
  }];
}
def Tessera_RmsnormSafeOp : Tessera_NormOp<"rmsnorm_safe",
    "x / sqrt(mean of squares + eps) over the axes, times scale"> {
  let description = [{
    Operands: x of floats, then perhaps a scale of x's element type, which broadcasts to x's shape. `axes`
    ascend. Zhang and Sennrich 2019, section 4.
  }];
}

def Tessera_RepairOp : Tessera_ManyOp<"repair",
    "a number of each row, computed again where it has overflowed or vanished"> {
  let description = [{
    Operands: x of f64 or f32, `plain`, and with an offset the mean. A row runs over the `axes`. All operands but x have size 1 in these dims,
    and so has the result; "average" and "variance" are without them. `of` says which number it is; each is `plain` unless the row is computed
    again:
    "average": the mean. Again where `plain` is not finite.
    "variance": the mean of squares around the mean. Again where `plain` is not finite.
    "mean": the mean; 0 where x minus it would be too large for the type. Again where that is so, or it is not finite.
    "size": 1 / sqrt(mean of squares + eps). Again where `plain` is 0 or NaN, and, with an `eps` below the least normal number, where the sum
    is below that; at most the largest number of the type.
    "deviation": the same of squares around the mean.
    "offset": (the mean operand - the mean) times "deviation"; -0 where that is not computed again. `plain` is "deviation"'s.
    Of the gradient h that comes in through a normalized row n, with operands h, n, minus the plain mean of h n, 1 / size of the row, and if
    the row was centred minus the plain mean of h; h and n have the same type. Computed again are rows where a mean is not finite or so large that the difference
    from h, or from h and n times the mean, may overflow; all four numbers then, so that h, and what is subtracted from it, can be scaled:
    "incoming_scale": a power of two, below 1, for h and the means; 1 where that is not computed again.
    "incoming_product": minus the mean of h n, times that scale. "incoming_mean": minus the mean of h, times that scale.
    "incoming_size": 1 / size, divided by that scale; at most the largest number of the type.
    Rows of f32 are summed in f64, one element after the other; those of f64 times a power of two. What lowering makes of norms and means.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64ArrayAttr:$axes, StrAttr:$of,
      DefaultValuedAttr<F64Attr, "0.0">:$eps);
}

def Tessera_BatchNormOp : Tessera_ManyOp<"batch_norm",
    "(x - mean) / sqrt(variance + eps) * scale + bias, one of each per channel"> {
  let description = [{
    Operands: x of floats, then scale, bias, mean and variance, each [C] of x's element type, C the size of
    dim `axis`. With the running statistics, as evaluation does. Ioffe and Szegedy 2015, algorithm 2.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64Attr:$axis,
      DefaultValuedAttr<F64Attr, "1.0e-5">:$eps);
}

def Tessera_BatchNormTrainOp : Tessera_Op<"batch_norm_train", [Pure]> {
  let summary = "batch_norm by the batch's own mean and variance, and the next running ones";
  let description = [{
    Operands as batch_norm. Results: the normed tensor by the batch's mean and (biased) variance; the next
    running mean and, unbiased, variance: old + momentum (batch's - old), which the program assigns. Ioffe
    and Szegedy 2015, algorithm 1.
  }];
  let arguments = (ins Tessera_Tensor:$input, Tessera_Tensor:$scale, Tessera_Tensor:$bias,
      Tessera_Tensor:$mean, Tessera_Tensor:$variance, I64Attr:$axis,
      DefaultValuedAttr<F64Attr, "1.0e-5">:$eps, DefaultValuedAttr<F64Attr, "0.1">:$momentum);
  let results = (outs Tessera_Tensor:$result, Tessera_Tensor:$new_mean,
      Tessera_Tensor:$new_variance);
  let assemblyFormat = [{
    $input `,` $scale `,` $bias `,` $mean `,` $variance attr-dict `:` type($input) `,` type($scale)
    `,` type($bias) `,` type($mean) `,` type($variance) `->` type($result) `,` type($new_mean) `,`
    type($new_variance)
  }];
}

// ---- attention -----------------------------------------------------------------------------

def Tessera_AttentionOp : Tessera_Op<"attention", [Pure]> {
  let summary = "softmax_safe(scale * q k^T + mask) v";
  let description = [{
    Operands: q [B, H, S, D], k [B, G, T, D], v [B, G, T, E], and perhaps a mask that broadcasts to
    [B, H, S, T]: i1 (true: attend) or of q's type (added). H is a multiple of G: query head h reads
    key head h / (H / G). With `causal` query i sees the keys j <= i + T - S. The default scale is
    1 / sqrt(D). A query that sees no key gives 0.

    With `dropout` = p, in train entries, each weight of the softmax becomes 0 with probability p, else it is divided by 1 - p (Srivastava
    et al. 2014, section 4, scaled in training); 0 <= p < 1. A weight falls where a number of its own, of 15 bits in [0, 1), is below p, which is thus as good as
    rounded up to a multiple of 2^-15: the number that tessera.philox has, `shared`, at an element of the same `stream` (compiler/ir/samples.h).
    Pass tessera-streams sets `stream` from the call path. Later on three operands come behind the others: i64 [B], the number of the first
    head of each b; the step; the seed.

    Results: [B, H, S, E], and perhaps [B, H, S] of f32 (f64 for f64): the log of the sum of
    exponentials of each query, which the gradient needs.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, UnitAttr:$causal,
      OptionalAttr<F64Attr>:$scale, OptionalAttr<F64Attr>:$dropout, OptionalAttr<I64Attr>:$stream);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let assemblyFormat = "$inputs attr-dict `:` type($inputs) `->` type($results)";
}

def Tessera_AttentionGradOp : Tessera_Op<"attention_grad", [Pure]> {
  let summary = "gradients of q, k and v";
  let description = [{
    Operands: those of attention without the mask, its result, its logsumexp, the gradient of the
    result, and perhaps the mask, and what attention draws with. The same weights fall, by `stream`.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, UnitAttr:$causal,
      OptionalAttr<F64Attr>:$scale, OptionalAttr<F64Attr>:$dropout, OptionalAttr<I64Attr>:$stream);
  let results = (outs Tessera_Tensor:$of_query, Tessera_Tensor:$of_key, Tessera_Tensor:$of_value);
  let assemblyFormat = [{
    $inputs attr-dict `:` type($inputs) `->` type($of_query) `,` type($of_key) `,` type($of_value)
  }];
}

def Tessera_RotaryOp : Tessera_ValueOp<"rotary", [AllTypesMatch<["input", "result"]>]> {
  let summary = "turns pairs of the last dim by angles that grow with the place along the axis";
  let description = [{
    Su et al. 2021, section 3.2.2: pair i of row p turns by (offset + p) * base^(-2i / D), D the last
    dim; backward if `inverse`. Pair i is elements i and i + D/2, or 2i and 2i + 1 if `interleaved`.
  }];
  let arguments = (ins Tessera_Tensor:$input, I64Attr:$axis,
      DefaultValuedAttr<I64Attr, "0">:$offset, DefaultValuedAttr<F64Attr, "1.0e4">:$base,
      UnitAttr:$interleaved, UnitAttr:$inverse);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}
