// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: products, reductions, changes of shape.

// ---- products, reductions, shapes ---------------------------------------------------------

def Tessera_MatmulOp : Tessera_ValueOp<"matmul"> {
  let summary = "matrix product over the last two dims; those before broadcast";
  let description = [{
    Two floats of one element type and of at least 2 dims: [..., M, K] by [..., K, N] gives [..., M, N];
    the dims before the last two broadcast. `transpose_a` and `transpose_b` swap an operand's last two
    dims first. Each element is one chain of fused multiply-adds in ascending order of k; an empty K gives
    0. Small floats accumulate in f32. `allow_tf32` lets a GPU's matrix units multiply f32 rounded to
    10 bits of its fraction, in bundles of native numerics; everywhere else, and for other types, it
    changes nothing. Gradients are products of the same permission.
  }];
  let arguments = (ins Tessera_Tensor:$lhs, Tessera_Tensor:$rhs,
      DefaultValuedAttr<BoolAttr, "false">:$transpose_a,
      DefaultValuedAttr<BoolAttr, "false">:$transpose_b, UnitAttr:$allow_tf32);
  let assemblyFormat = [{
    $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
}

def Tessera_SumOp : Tessera_ReduceOp<"sum", "sum over the axes, which disappear"> {
  let description = [{
    Of f64, f32, bf16, f16, i64 or i32; `axes` ascend. In a fixed order of partial sums, whatever the
    target; bf16 and f16 in f32. Of nothing 0.
  }];
}
def Tessera_MeanOp : Tessera_ReduceOp<"mean", "mean over the axes, which disappear"> {
  let description = [{
    Of floats; `axes` ascend. The sum divided by the count; of nothing NaN.
  }];
}
def Tessera_ReduceMaxOp : Tessera_ReduceOp<"reduce_max", "largest over the axes, which disappear"> {
  let description = [{
    Of numbers; `axes` ascend. NaN if there is one; of nothing the lowest value of the type. Elements
    that tie share the gradient.
  }];
}
def Tessera_ReduceMinOp : Tessera_ReduceOp<"reduce_min", "smallest over the axes, which disappear"> {
  let description = [{
    Of numbers; `axes` ascend. NaN if there is one; of nothing the highest value of the type. Elements
    that tie share the gradient.
  }];
}
def Tessera_ReduceProdOp : Tessera_ReduceOp<"reduce_prod", "product over the axes, which disappear"> {
  let description = [{
    Of f64, f32, bf16, f16, i64 or i32; `axes` ascend. Of nothing 1. The gradient of an element is the
    product of the others, right also where some are 0.
  }];
}

def Tessera_ArgmaxOp : Tessera_ShapeOp<"argmax", "i64: index of the first largest along the axis",
    (ins Tessera_Tensor:$input, I64Attr:$axis)> {
  let description = [{
    Of numbers; the axis is removed. The first of equal ones; NaN counts as the largest. The axis must not
    be empty. Has no gradient.
  }];
}
def Tessera_ReshapeOp : Tessera_ShapeOp<"reshape", "the same elements in another shape",
    (ins Tessera_Tensor:$input)> {
  let description = [{
    Of any element type: the elements in row-major order, as many as before. One dim of the result may be
    open (`?`) where the others tell it, and before it such as the operand has at the same place.
  }];
}
def Tessera_TransposeOp : Tessera_ShapeOp<"transpose", "result dim i is input dim permutation[i]",
    (ins Tessera_Tensor:$input, I64ArrayAttr:$permutation)> {
  let description = [{
    Of any element type; `permutation` names each dim once.
  }];
}
def Tessera_BroadcastOp : Tessera_ShapeOp<"broadcast", "stretch to the result's shape",
    (ins Tessera_Tensor:$input)> {
  let description = [{
    Of any element type: missing dims before the first, and dims of size 1, stretch as NumPy's
    broadcast_to does. The gradient is the sum over what was stretched.
  }];
}

def Tessera_CrossEntropyOp : Tessera_ValueOp<"cross_entropy"> {
  let summary = "per row: logsumexp(logits) - logits[label]";
  let description = [{
    Logits [R, C] of floats, labels [R] of i64 or i32 in [0, C); the result is [R]. The largest logit is taken
    off first, so that nothing overflows. A label out of range ends the step with an error that names it.
  }];
  let arguments = (ins Tessera_Tensor:$logits, Tessera_Tensor:$labels);
  let assemblyFormat = [{
    $logits `,` $labels attr-dict `:` type($logits) `,` type($labels) `->` type($result)
  }];
}

def Tessera_CrossEntropyGradOp : Tessera_ValueOp<"cross_entropy_grad"> {
  let summary = "per row: (softmax(logits) - onehot(label)) * dloss";
  let description = [{
    Logits [R, C] of floats, labels [R] of i64 or i32, dlosses [R]; the result is [R, C]. What autodiff makes of
    tessera.cross_entropy.
  }];
  let arguments = (ins Tessera_Tensor:$logits, Tessera_Tensor:$labels, Tessera_Tensor:$dlosses);
  let assemblyFormat = [{
    $logits `,` $labels `,` $dlosses attr-dict `:`
    type($logits) `,` type($labels) `,` type($dlosses) `->` type($result)
  }];
}
