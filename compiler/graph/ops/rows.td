// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: softmax, norms, attention.

// ---- rows: softmax and norms ---------------------------------------------------------------

def Tessera_SoftmaxSafeOp : Tessera_ValueOp<"softmax_safe", "Same", [AllTypesMatch<["input", "result"]>]> {
  let summary = "divides exp(x - max) by its sum along the axis; 0 where all elements are -inf";
  let description = [{
    The operand has floats, and the op works along one axis. The order of the sum is fixed. The largest element
    is subtracted first, so that no exponential overflows: Milakov and Gimelshein 2018, section 2.
  }];
  let arguments = (ins Tessera_Tensor:$input, I64Attr:$axis);
}

def Tessera_LogsumexpSafeOp : Tessera_ReduceOp<"logsumexp_safe",
    "returns the logarithm of the sum of exponentials over the axes, without overflow"> {
  let description = [{
    The operand has floats. `axes` are in ascending order and are removed. The largest element is subtracted
    before the exponentials. The result is -inf where all elements are -inf, and where there are no elements.
  }];
}

class Tessera_NormOp<string mnemonic, string what> : Tessera_ManyOp<mnemonic, what> {
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64ArrayAttr:$axes,
      DefaultValuedAttr<F64Attr, "1.0e-5">:$eps);
}
def Tessera_LayernormSafeOp : Tessera_NormOp<"layernorm_safe",
    "returns (x - mean) / sqrt(variance + eps) over the axes, times scale, plus bias"> {
  let description = [{
    The operands are x, which has floats, then optionally a scale, then optionally a bias. Scale and bias have
    the element type of x and broadcast to its shape. `axes` are in ascending order. The variance is the mean of
    the squared differences from the mean, not the difference of two large sums. Ba et al. 2016, section 3.
  }];
}
def Tessera_RmsnormSafeOp : Tessera_NormOp<"rmsnorm_safe",
    "returns x / sqrt(mean of squares + eps) over the axes, times scale"> {
  let description = [{
    The operands are x, which has floats, and optionally a scale, which has the element type of x and broadcasts
    to its shape. `axes` are in ascending order. Zhang and Sennrich 2019, section 4.
  }];
}

def Tessera_RepairOp : Tessera_ManyOp<"repair",
    "computes one number for each row again where it has overflowed or vanished"> {
  let description = [{
    The operands are x of f64 or f32, `plain`, and for "offset" also the mean. A row extends over the `axes`.
    All operands but x have size 1 in these dims, and so does the result; for "average" and "variance" the axes
    are removed instead. `of` selects the number. The result is `plain` unless the row is computed again:
    "average": the mean. It is computed again where `plain` is not finite.
    "variance": the mean of squared differences from the mean. It is computed again where `plain` is not finite.
    "mean": the mean, or 0 where x minus the mean would be too large for the type. It is computed again where that is
    the case, or where `plain` is not finite.
    "size": 1 / sqrt(mean of squares + eps), at most the largest number of the type. It is computed again where `plain`
    is 0 or NaN, and, if `eps` is below the least normal number, where the sum is below that number.
    "deviation": like "size", for squared differences from the mean.
    "offset": (the mean operand - the mean) times "deviation"; -0 where "deviation" is not computed again. `plain` is the
    `plain` of "deviation".
    The remaining numbers belong to the gradient h that enters through a normalized row n. Their operands are h, n, the negated plain mean
    of h n, 1 / size of the row, and, if the row was centred, the negated plain mean of h; h and n have the same type. A row is computed again
    where a mean is not finite, or is so large that the difference from h, or from h and n times the mean, may overflow. Then all four
    numbers are computed again, so that h and the means subtracted from it can be scaled:
    "incoming_scale": a power of two below 1, for h and the means; 1 where the row is not computed again.
    "incoming_product": the negated mean of h n, times that scale.
    "incoming_mean": the negated mean of h, times that scale.
    "incoming_size": 1 / size, divided by that scale, at most the largest number of the type.
    Rows of f32 are summed in f64, one element after the other; rows of f64 are first multiplied by a power of
    two. The lowering of norms, their gradients and means creates this op.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64ArrayAttr:$axes, StrAttr:$of,
      DefaultValuedAttr<F64Attr, "0.0">:$eps);
}

def Tessera_BatchNormOp : Tessera_ManyOp<"batch_norm",
    "returns (x - mean) / sqrt(variance + eps) * scale + bias, with one of each per channel"> {
  let description = [{
    The operands are x, which has floats, then scale, bias, mean and variance. Each of these four is [C] of x's
    element type, where C is the size of dim `axis`. Mean and variance are the running statistics, as in
    evaluation. Ioffe and Szegedy 2015, algorithm 2.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64Attr:$axis,
      DefaultValuedAttr<F64Attr, "1.0e-5">:$eps);
}

def Tessera_BatchNormTrainOp : Tessera_FormOp<"batch_norm_train", "Inferred", [Pure]> {
  let summary = "normalizes with the batch's own mean and variance, and returns the next running statistics";
  let description = [{
    The operands are those of batch_norm. The results are the tensor normalized with the batch's mean and biased
    variance, the next running mean, and the next running variance, which is unbiased. Each running statistic
    becomes old + momentum (batch's - old); the program assigns it. Ioffe and Szegedy 2015, algorithm 1.
  }];
  let arguments = (ins Tessera_Tensor:$input, Tessera_Tensor:$scale, Tessera_Tensor:$bias,
      Tessera_Tensor:$mean, Tessera_Tensor:$variance, I64Attr:$axis,
      DefaultValuedAttr<F64Attr, "1.0e-5">:$eps, DefaultValuedAttr<F64Attr, "0.1">:$momentum);
  let results = (outs Tessera_Tensor:$result, Tessera_Tensor:$new_mean,
      Tessera_Tensor:$new_variance);
}

// ---- attention -----------------------------------------------------------------------------

def Tessera_AttentionOp : Tessera_FormOp<"attention", "Inferred", [Pure]> {
  let summary = "returns softmax_safe(scale * q k^T + mask) v";
  let description = [{
    The operands are q [B, H, S, D], k [B, G, T, D], v [B, G, T, E], and optionally a mask that broadcasts to
    [B, H, S, T]. A mask of i1 is true where the query attends to the key; a mask of q's type is added. H is a
    multiple of G: query head h reads key head h / (H / G). With `causal`, query i sees the keys j <= i + T - S.
    The default scale is 1 / sqrt(D). The result of a query that sees no key is 0.

    With `dropout` = p, in train entries, each weight of the softmax becomes 0 with probability p and is
    otherwise divided by 1 - p (Srivastava et al. 2014, section 4, with scaling during training); 0 <= p < 1.
    Each weight has its own random number of 15 bits in [0, 1) and becomes 0 where that number is below p, so p
    has the same effect as p rounded up to a multiple of 2^-15. The random number is that of tessera.philox with
    `shared`, for an element of the same `stream` (compiler/ir/samples.h). Pass tessera-streams sets `stream`
    from the call path. Later passes append three operands: i64 [B] with the number of the first head of each b,
    the step, and the seed.

    The results are [B, H, S, E], and optionally [B, H, S] of f32 (f64 for f64): the logarithm of the sum of
    exponentials of each query, which the gradient needs.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, UnitAttr:$causal,
      OptionalAttr<F64Attr>:$scale, OptionalAttr<F64Attr>:$dropout, OptionalAttr<I64Attr>:$stream);
  let results = (outs Variadic<Tessera_Tensor>:$results);
}

def Tessera_AttentionGradOp : Tessera_FormOp<"attention_grad", "Inferred", [Pure]> {
  let summary = "computes the gradients of q, k and v";
  let description = [{
    The operands are those of attention without the mask, its result, its logsumexp, the gradient of the result,
    optionally the mask, and the operands that dropout needs. `stream` selects the same random numbers, so that
    the same weights become 0.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, UnitAttr:$causal,
      OptionalAttr<F64Attr>:$scale, OptionalAttr<F64Attr>:$dropout, OptionalAttr<I64Attr>:$stream);
  let results = (outs Tessera_Tensor:$of_query, Tessera_Tensor:$of_key, Tessera_Tensor:$of_value);
}

def Tessera_RotaryOp : Tessera_ValueOp<"rotary", "Same", [AllTypesMatch<["input", "result"]>]> {
  let summary = "rotates pairs of the last dim by angles that grow with the position along the axis";
  let description = [{
    Pair i of row p is rotated by (offset + p) * base^(-2i / D), where D is the size of the last dim (Su et al.
    2021, section 3.2.2). With `inverse` the rotation is backward. Pair i consists of elements i and i + D/2,
    or, with `interleaved`, of elements 2i and 2i + 1.
  }];
  let arguments = (ins Tessera_Tensor:$input, I64Attr:$axis,
      DefaultValuedAttr<I64Attr, "0">:$offset, DefaultValuedAttr<F64Attr, "1.0e4">:$base,
      UnitAttr:$interleaved, UnitAttr:$inverse);
}
