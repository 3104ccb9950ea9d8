// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: ops that move elements, and sorting.

// ---- moving elements -----------------------------------------------------------------------

// Ops with any number of operands of the same kind.
class Tessera_ManyOp<string mnemonic, string what, list<Trait> traits = []>
    : Tessera_ValueOp<mnemonic, "Inferred", traits> {
  let summary = what;
}

def Tessera_SliceOp : Tessera_ShapeOp<"slice", "takes `size` elements of each dim, from `start` on, in steps of `stride`",
    (ins Tessera_Tensor:$input, Tessera_DimArrayAttr:$start, Tessera_DimArrayAttr:$size,
     OptionalAttr<I64ArrayAttr>:$stride)> {
  let description = [{
    The operand may have any element type. The three lists have one entry for each dim. `stride` is at least 1,
    and 1 if it is absent. All elements that the op takes must be inside the operand. The result has the shape
    `size`. An entry of `start` and `size` may be an expression over the symbols of open dims, such as "S - 1".
  }];
}
def Tessera_PadOp : Tessera_ShapeOp<"pad",
    "inserts `value` before and after the elements of each dim, and between them",
    (ins Tessera_Tensor:$input, I64ArrayAttr:$low, I64ArrayAttr:$high,
     OptionalAttr<I64ArrayAttr>:$interior, DefaultValuedAttr<F64Attr, "0.0">:$value)> {
  let description = [{
    The operand may have any element type. `low` and `high` are the numbers of elements inserted before and
    after each dim; `interior` is the number of elements inserted between two neighbours, 0 if absent. These
    numbers are at least 0. A dim of size d gets the size low + d + (d - 1) interior + high.
  }];
}

def Tessera_ConcatOp : Tessera_ManyOp<"concat", "concatenates the operands along the axis"> {
  let description = [{
    The op takes 1 to 64 operands of the same element type. Their dims are equal except along the axis, where
    the sizes add up.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64Attr:$axis);
}

def Tessera_SplitOp : Tessera_FormOp<"split", "Declared", [Pure]> {
  let summary = "splits the operand along the axis into consecutive parts";
  let description = [{
    The operand may have any element type. The dims of the results equal the operand's, except along the axis,
    where the declared sizes add up to the operand's size.
  }];
  let arguments = (ins Tessera_Tensor:$input, I64Attr:$axis);
  let results = (outs Variadic<Tessera_Tensor>:$parts);
}

def Tessera_GatherOp : Tessera_ValueOp<"gather", "Inferred"> {
  let summary = "takes slices along the axis; the dims of the indices replace the axis";
  let description = [{
    An index outside the axis ends the step with an error that names the index.
  }];
  let arguments = (ins Tessera_Tensor:$input, Tessera_Tensor:$indices, I64Attr:$axis);
}

def Tessera_ScatterAddOp : Tessera_ValueOp<"scatter_add", "Same", [AllTypesMatch<["input", "result"]>]> {
  let summary = "adds each update to the slice of the input that its index names";
  let description = [{
    This op is the transpose of gather: `updates` has the type that gather returns for these indices. Updates of
    the same element are added in ascending order of their positions. An index outside the axis ends the step
    with an error that names the index.
  }];
  let arguments = (ins Tessera_Tensor:$input, Tessera_Tensor:$indices, Tessera_Tensor:$updates,
      I64Attr:$axis);
}

def Tessera_ScatterOp : Tessera_ValueOp<"scatter", "Same", [AllTypesMatch<["input", "result"]>]> {
  let summary = "changes the slices of the input that indices name";
  let description = [{
    `updates` has the type that gather returns for these indices. With `how = "set"` an update replaces its
    slice; if several updates have the same index, the last one in row-major order of the indices remains. With
    `"max"`, `"min"` and `"mul"` the result is the largest, the smallest or the product of the old slice and all
    its updates, which are taken in ascending order of their positions. `"set"` takes any element type; `"max"`
    and `"min"` take numbers; `"mul"` takes floats, i64 and i32. `scatter_add` adds. An index outside the axis
    ends the step with an error that names the index.

    Gradients: a slice that was set passes its gradient to the update that remains. If the old element and
    updates tie for the maximum or minimum, they share the gradient equally.
  }];
  let arguments = (ins Tessera_Tensor:$input, Tessera_Tensor:$indices, Tessera_Tensor:$updates,
      I64Attr:$axis, DefaultValuedAttr<StrAttr, "\"set\"">:$how);
}

def Tessera_OneHotOp : Tessera_ShapeOp<"one_hot",
    "returns 1 where the position along the new axis equals the index, and 0 elsewhere",
    (ins Tessera_Tensor:$input, I64Attr:$axis), "Declared"> {
  let description = [{
    The indices are i64 or i32. The declared result type has one more dim, at `axis`, whose size is the number
    of classes. An index outside the classes gives zeros. This op has no gradient.
  }];
}

def Tessera_IotaOp : Tessera_ValueOp<"iota", "Declared"> {
  let summary = "sets each element to its position along the axis";
  let description = [{
    The result has numbers and the declared static type, which must represent every position along the axis
    exactly.
  }];
  let arguments = (ins I64Attr:$axis);
}

def Tessera_SizesOp : Tessera_ValueOp<"sizes", "Inferred"> {
  let summary = "returns integers that depend on the sizes of open dims";
  let description = [{
    The result is a list of i64, one for each entry of `values`: an integer, or an expression over the symbols
    of open dims, such as "N" or "2*N + 1". When the symbols get their sizes, the op becomes a constant.
  }];
  let arguments = (ins ArrayAttr:$values);
}

def Tessera_CumsumOp : Tessera_ValueOp<"cumsum", "Same", [AllTypesMatch<["input", "result"]>]> {
  let summary = "computes the sums of all elements up to each position along the axis";
  let description = [{
    The operand has f64, f32, bf16, f16, i64 or i32. The elements are added one by one along the axis; with
    `reverse` the sum begins at the end of the axis. With `exclusive` the sum at a position leaves out the
    element at this position.
  }];
  let arguments = (ins Tessera_Tensor:$input, I64Attr:$axis,
      DefaultValuedAttr<BoolAttr, "false">:$reverse,
      DefaultValuedAttr<BoolAttr, "false">:$exclusive);
}

// ---- order ---------------------------------------------------------------------------------

class Tessera_SortingOp<string mnemonic, string what, dag args> : Tessera_FormOp<mnemonic, "Inferred", [Pure]> {
  let summary = what;
  let arguments = args;
  let results = (outs Tessera_Tensor:$values, Tessera_Tensor:$indices);
}

def Tessera_SortOp : Tessera_SortingOp<"sort",
    "sorts along the axis and also returns the former positions; stable, NaN last",
    (ins Tessera_Tensor:$input, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "false">:$descending)> {
  let description = [{
    The operand has numbers. The order is ascending, or descending with `descending`. Equal elements keep their
    order; NaN is last in both orders. The second result is i64: the position along the axis that each element
    had before. The gradient goes back to these positions.
  }];
}
def Tessera_TopKOp : Tessera_SortingOp<"top_k",
    "returns the k largest elements along the axis, largest first, and their positions",
    (ins Tessera_Tensor:$input, I64Attr:$axis, I64Attr:$k)> {
  let description = [{
    The operand has numbers. The results are the first `k` elements of a descending sort, with 0 <= k <= the
    size of the axis; the axis of the results has k elements. The second result is i64: the positions of these
    elements. The gradient goes back to these positions.
  }];
}
