// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: products, reductions, changes of shape.

// ---- products, reductions, shapes ---------------------------------------------------------

def Tessera_MatmulOp : Tessera_ValueOp<"matmul", "Inferred"> {
  let summary = "multiplies matrices in the last two dims; the dims before them broadcast";
  let description = [{
    Both operands have at least 2 dims, and floats of the same element type, or i8 and ui8 in any combination:
    [..., M, K] times [..., K, N] gives [..., M, N]. The result of integers is exact, has i32, and wraps; it has no
    gradient. The dims before the last two broadcast. `transpose_a` and `transpose_b` swap the last two dims
    of an operand first. Of floats, each element is one chain of fused multiply-adds in ascending order of k; if K is 0,
    the result is 0. Small floats accumulate in f32. `allow_tf32` allows the matrix units of a GPU to round f32
    operands to 10 bits of the fraction before they multiply, in bundles with native numerics. It has no effect
    elsewhere or for other types. Products that compute gradients have the same `allow_tf32`.
  }];
  let arguments = (ins Tessera_Tensor:$lhs, Tessera_Tensor:$rhs,
      DefaultValuedAttr<BoolAttr, "false">:$transpose_a,
      DefaultValuedAttr<BoolAttr, "false">:$transpose_b, UnitAttr:$allow_tf32);
}

def Tessera_SumOp : Tessera_ReduceOp<"sum", "computes the sum over the axes, which are removed"> {
  let description = [{
    The operand has f64, f32, bf16, f16, i64 or i32. `axes` are in ascending order. The order of the partial
    sums is fixed and the same on every target; bf16 and f16 are summed in f32. The sum over no elements is 0.
  }];
}
def Tessera_MeanOp : Tessera_ReduceOp<"mean", "computes the mean over the axes, which are removed"> {
  let description = [{
    The operand has floats. `axes` are in ascending order. The mean is the sum divided by the count; over no
    elements it is NaN.
  }];
}
def Tessera_ReduceMaxOp : Tessera_ReduceOp<"reduce_max", "returns the largest element over the axes, which are removed"> {
  let description = [{
    The operand has numbers. `axes` are in ascending order. The result is NaN if an element is NaN; over no
    elements it is the lowest value of the type. Equal largest elements share the gradient.
  }];
}
def Tessera_ReduceMinOp : Tessera_ReduceOp<"reduce_min", "returns the smallest element over the axes, which are removed"> {
  let description = [{
    The operand has numbers. `axes` are in ascending order. The result is NaN if an element is NaN; over no
    elements it is the highest value of the type. Equal smallest elements share the gradient.
  }];
}
def Tessera_ReduceProdOp : Tessera_ReduceOp<"reduce_prod", "computes the product over the axes, which are removed"> {
  let description = [{
    The operand has f64, f32, bf16, f16, i64 or i32. `axes` are in ascending order. The product over no elements
    is 1. The gradient of an element is the product of all other elements, which is correct even if some
    elements are 0.
  }];
}

def Tessera_ArgmaxOp : Tessera_ShapeOp<"argmax", "returns the index of the first largest element along the axis, as i64",
    (ins Tessera_Tensor:$input, I64Attr:$axis)> {
  let description = [{
    The operand has numbers; the axis is removed. Of equal elements the first one counts; NaN counts as the
    largest. The axis must not be empty. This op has no gradient.
  }];
}
def Tessera_ReshapeOp : Tessera_ShapeOp<"reshape", "gives the same elements another shape",
    (ins Tessera_Tensor:$input), "Declared"> {
  let description = [{
    The operand may have any element type. The elements stay in row-major order, and their number stays the
    same. One dim of the result may be dynamic (`?`) if the other dims determine it; dims before it may be
    dynamic if the operand's dim at the same position is dynamic, too.
  }];
}
def Tessera_WordsOp : Tessera_ShapeOp<"words", "packs each four integers of 8 bits along the axis into one of 32 bits",
    (ins Tessera_Tensor:$input, I64Attr:$axis)> {
  let description = [{
    The operand has i8 and the result i32, or ui8 and ui32. The first of the four is in the lowest bits; zeros
    follow the last element. Pass tessera-decompose makes this op from products of integers, whose products
    then multiply four elements in one step. This op has no gradient.
  }];
}
def Tessera_TransposeOp : Tessera_ShapeOp<"transpose", "permutes the dims: result dim i is input dim permutation[i]",
    (ins Tessera_Tensor:$input, I64ArrayAttr:$permutation)> {
  let description = [{
    The operand may have any element type. `permutation` lists each dim once.
  }];
}
def Tessera_BroadcastOp : Tessera_ShapeOp<"broadcast", "broadcasts the operand to the result's shape",
    (ins Tessera_Tensor:$input), "Declared"> {
  let description = [{
    The operand may have any element type. Missing leading dims, and dims of size 1, are repeated as NumPy's
    broadcast_to repeats them. The gradient is the sum over the repeated dims.
  }];
}

def Tessera_CrossEntropyOp : Tessera_ValueOp<"cross_entropy", "Inferred"> {
  let summary = "returns logsumexp(logits) - logits[label] for each row";
  let description = [{
    The logits are [R, C] of floats; the labels are [R] of i64 or i32, each in [0, C). The result is [R]. The
    largest logit is subtracted first, so that no exponential overflows. A label out of range ends the step with
    an error that names it.
  }];
  let arguments = (ins Tessera_Tensor:$logits, Tessera_Tensor:$labels);
}

def Tessera_CrossEntropyGradOp : Tessera_ValueOp<"cross_entropy_grad", "Inferred"> {
  let summary = "returns (softmax(logits) - onehot(label)) * dloss for each row";
  let description = [{
    The logits are [R, C] of floats, the labels are [R] of i64 or i32, and dlosses is [R]. The result is [R, C].
    Pass tessera-autodiff creates this op as the gradient of tessera.cross_entropy.
  }];
  let arguments = (ins Tessera_Tensor:$logits, Tessera_Tensor:$labels, Tessera_Tensor:$dlosses);
}
