// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: ops that move elements, and sorting.

// ---- moving elements -----------------------------------------------------------------------

// Any number of operands of one kind.
class Tessera_ManyOp<string mnemonic, string what, list<Trait> traits = []>
    : Tessera_ValueOp<mnemonic, traits> {
  let summary = what;
  let assemblyFormat = "$inputs attr-dict `:` type($inputs) `->` type($result)";
}

def Tessera_SliceOp : Tessera_ShapeOp<"slice", "`size` elements of each dim, from `start` by `stride`",
    (ins Tessera_Tensor:$input, I64ArrayAttr:$start, I64ArrayAttr:$size,
     OptionalAttr<I64ArrayAttr>:$stride)> {
  let description = [{
    Of any element type. Three lists with an entry for each dim (`stride` 1 if absent, at least 1);
    every element taken must lie inside. The result has the shape `size`.
  }];
}
def Tessera_PadOp : Tessera_ShapeOp<"pad",
    "`value` before and after each dim, and between its elements",
    (ins Tessera_Tensor:$input, I64ArrayAttr:$low, I64ArrayAttr:$high,
     OptionalAttr<I64ArrayAttr>:$interior, DefaultValuedAttr<F64Attr, "0.0">:$value)> {
  let description = [{
    Of any element type. `low` and `high` elements around each dim, `interior` between its elements (0 if
    absent), none negative. Dim d becomes low + d + (d - 1) interior + high.
  }];
}

def Tessera_ConcatOp : Tessera_ManyOp<"concat", "the operands one after the other along the axis"> {
  let description = [{
    1 to 64 operands of one element type, equal in all dims but the axis, whose sizes add up.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64Attr:$axis);
}

def Tessera_SplitOp : Tessera_Op<"split", [Pure]> {
  let summary = "consecutive parts along the axis, of the results' sizes";
  let description = [{
    Of any element type. The results equal the operand in all dims but the axis, where their sizes, as
    declared, add up to its.
  }];
  let arguments = (ins Tessera_Tensor:$input, I64Attr:$axis);
  let results = (outs Variadic<Tessera_Tensor>:$parts);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($parts)";
}

def Tessera_GatherOp : Tessera_ValueOp<"gather"> {
  let summary = "slices along the axis; the dims of the indices take its place";
  let description = "An index outside the axis ends the step with an error that names it.";
  let arguments = (ins Tessera_Tensor:$input, Tessera_Tensor:$indices, I64Attr:$axis);
  let assemblyFormat = [{
    $input `,` $indices attr-dict `:` type($input) `,` type($indices) `->` type($result)
  }];
}

def Tessera_ScatterAddOp : Tessera_ValueOp<"scatter_add", [AllTypesMatch<["input", "result"]>]> {
  let summary = "the input, with each update added to the slice its index names";
  let description = [{
    The inverse of gather: `updates` has the type that gather gives for these indices. Updates of one
    element are added in ascending order of their place.
  }];
  let arguments = (ins Tessera_Tensor:$input, Tessera_Tensor:$indices, Tessera_Tensor:$updates,
      I64Attr:$axis);
  let assemblyFormat = [{
    $input `,` $indices `,` $updates attr-dict `:` type($input) `,` type($indices) `,` type($updates)
  }];
}

def Tessera_OneHotOp : Tessera_ShapeOp<"one_hot",
    "1 where the place along the new axis is the index, else 0",
    (ins Tessera_Tensor:$input, I64Attr:$axis)> {
  let description = [{
    Indices are i64 or i32; the result's type, as declared, has one dim more, at `axis`, of as many places
    as there are classes. An index outside of them gives zeros. Has no gradient.
  }];
}

def Tessera_IotaOp : Tessera_ValueOp<"iota"> {
  let summary = "each element is its place along the axis";
  let description = [{
    Of numbers, static, as declared; the type must hold every place along the axis exactly.
  }];
  let arguments = (ins I64Attr:$axis);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tessera_CumsumOp : Tessera_ValueOp<"cumsum", [AllTypesMatch<["input", "result"]>]> {
  let summary = "sums of the elements up to each, in order of the axis";
  let description = [{
    Of f64, f32, bf16, f16, i64 or i32, added one by one in order of the axis, or from its end with
    `reverse`. With `exclusive` each sum leaves out its own element.
  }];
  let arguments = (ins Tessera_Tensor:$input, I64Attr:$axis,
      DefaultValuedAttr<BoolAttr, "false">:$reverse,
      DefaultValuedAttr<BoolAttr, "false">:$exclusive);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

// ---- order ---------------------------------------------------------------------------------

class Tessera_SortingOp<string mnemonic, string what, dag args> : Tessera_Op<mnemonic, [Pure]> {
  let summary = what;
  let arguments = args;
  let results = (outs Tessera_Tensor:$values, Tessera_Tensor:$indices);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($values) `,` type($indices)";
}

def Tessera_SortOp : Tessera_SortingOp<"sort",
    "sorted along the axis, and where each element was; stable, NaN last",
    (ins Tessera_Tensor:$input, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "false">:$descending)> {
  let description = [{
    Of numbers, ascending, or with `descending`; equal elements keep their order, NaN is last either way.
    The second result is i64: where along the axis each element was. The gradient goes back there.
  }];
}
def Tessera_TopKOp : Tessera_SortingOp<"top_k",
    "the k largest along the axis, largest first, and where they were",
    (ins Tessera_Tensor:$input, I64Attr:$axis, I64Attr:$k)> {
  let description = [{
    Of numbers: the first `k` of a descending sort, 0 <= k <= the axis's size; the axis has k elements
    afterwards. The second result is i64. The gradient goes back to where they were.
  }];
}
