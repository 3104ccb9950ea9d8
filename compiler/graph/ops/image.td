// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: convolution, pooling.

// ---- convolution, pooling ------------------------------------------------------------------

// Images are [N, H, W, C], filters [KH, KW, C / groups, F]. `padding` lists top, bottom, left and right;
// `strides` and `dilation` list the numbers for H and W.
defvar convAttrs = (ins I64ArrayAttr:$strides, I64ArrayAttr:$padding, I64ArrayAttr:$dilation,
    DefaultValuedAttr<I64Attr, "1">:$groups);
class Tessera_ConvOp<string mnemonic, string what, dag operands, string resultTypes>
    : Tessera_ValueOp<mnemonic, resultTypes> {
  let summary = what;
  let arguments = !con(operands, convAttrs);
}
def Tessera_Conv2dOp : Tessera_ConvOp<"conv2d", "correlates an image (a) with a filter (b)",
    (ins Tessera_Tensor:$a, Tessera_Tensor:$b), "Inferred"> {
  let description = [{
    a is [N, H, W, C] and b is [KH, KW, C / groups, F]; both have floats of the same type, or i8 and ui8 in
    any combination: the result of integers is exact, has i32, and wraps; it has no gradient. The result is [N, H',
    W', F] with H' = (top + H + bottom - dilation (KH - 1) - 1) / stride + 1, rounded down. The filter is not
    mirrored. C and F are multiples of `groups`. A result dim below 1 is an error.
  }];
}
def Tessera_Conv2dGradInputOp : Tessera_ConvOp<"conv2d_grad_input",
    "computes the gradient of the image from the filter (a) and the result's gradient (b)",
    (ins Tessera_Tensor:$a, Tessera_Tensor:$b), "Declared"> {
  let description = [{
    The attributes are those of the conv2d. The result has the declared type, which is the type of the image.
    Pass tessera-autodiff creates this op. Its own gradients are convolutions, too.
  }];
}
def Tessera_Conv2dGradFilterOp : Tessera_ConvOp<"conv2d_grad_filter",
    "computes the gradient of the filter from the image (a) and the result's gradient (b)",
    (ins Tessera_Tensor:$a, Tessera_Tensor:$b), "Declared"> {
  let description = [{
    The attributes are those of the conv2d. The result has the declared type, which is the type of the filter.
    Pass tessera-autodiff creates this op. Its own gradients are convolutions, too.
  }];
}

defvar poolAttrs = (ins I64ArrayAttr:$window, I64ArrayAttr:$strides, I64ArrayAttr:$padding);
def Tessera_MaxPool2dOp : Tessera_ShapeOp<"max_pool2d", "returns the largest element of each window",
    !con((ins Tessera_Tensor:$input), poolAttrs)> {
  let description = [{
    The operand is an image of floats, [N, H, W, C]; the result is [N, H', W', C], with the H' and W' of a
    conv2d without dilation. Padding is never the largest element. The padding must be smaller than the window.
  }];
}
def Tessera_AvgPool2dOp : Tessera_ShapeOp<"avg_pool2d",
    "returns the mean of each window; padding counts as zeros unless `exclude_padding` is set",
    !con((ins Tessera_Tensor:$input), poolAttrs, (ins UnitAttr:$exclude_padding))> {
  let description = [{
    The operand is an image of floats, [N, H, W, C]; the result is [N, H', W', C], with the H' and W' of a
    conv2d without dilation. The divisor is the size of the window; with `exclude_padding` it is the number of
    elements that the window covers.
  }];
}
def Tessera_MaxPool2dGradOp : Tessera_ValueOp<"max_pool2d_grad", "Same",
    [AllTypesMatch<["input", "result"]>]> {
  let summary = "computes the gradient of the image; the gradient of a window goes to its first largest element";
  let description = [{
    The operands are the image and the gradient of max_pool2d's result. The attributes are those of max_pool2d.
  }];
  let arguments = !con((ins Tessera_Tensor:$input, Tessera_Tensor:$dresult), poolAttrs);
}
def Tessera_AvgPool2dGradOp : Tessera_ShapeOp<"avg_pool2d_grad",
    "computes the gradient of the image; the elements of a window share its gradient equally",
    !con((ins Tessera_Tensor:$input), poolAttrs, (ins UnitAttr:$exclude_padding)), "Declared"> {
  let description = [{
    The operand is the gradient of avg_pool2d's result. The attributes are those of avg_pool2d. The result has
    the declared type, which is the type of the image.
  }];
}
