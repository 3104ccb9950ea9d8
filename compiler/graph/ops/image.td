// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: convolution, pooling.

// ---- convolution, pooling ------------------------------------------------------------------

// Images are [N, H, W, C], filters [KH, KW, C / groups, F]; `padding` is top, bottom, left, right;
// the other pairs are for H, W.
defvar convAttrs = (ins I64ArrayAttr:$strides, I64ArrayAttr:$padding, I64ArrayAttr:$dilation,
    DefaultValuedAttr<I64Attr, "1">:$groups);
class Tessera_ConvOp<string mnemonic, string what, dag operands>
    : Tessera_ValueOp<mnemonic> {
  let summary = what;
  let arguments = !con(operands, convAttrs);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a) `,` type($b) `->` type($result)";
}
def Tessera_Conv2dOp : Tessera_ConvOp<"conv2d", "image (a) correlated with filter (b)",
    (ins Tessera_Tensor:$a, Tessera_Tensor:$b)> {
  let description = [{
    a [N, H, W, C], b [KH, KW, C / groups, F], floats of one type; the result is [N, H', W', F] with
    H' = (top + H + bottom - dilation (KH - 1) - 1) / stride + 1, rounded down. The filter is not
    mirrored. C and F are multiples of `groups`; a dim below 1 is an error.
  }];
}
def Tessera_Conv2dGradInputOp : Tessera_ConvOp<"conv2d_grad_input",
    "gradient of the image, of the filter (a) and the result's gradient (b)",
    (ins Tessera_Tensor:$a, Tessera_Tensor:$b)> {
  let description = [{
    The attributes are those of the conv2d; the result has the image's type, as declared. What autodiff
    makes; its own gradients are convolutions again.
  }];
}
def Tessera_Conv2dGradFilterOp : Tessera_ConvOp<"conv2d_grad_filter",
    "gradient of the filter, of the image (a) and the result's gradient (b)",
    (ins Tessera_Tensor:$a, Tessera_Tensor:$b)> {
  let description = [{
    The attributes are those of the conv2d; the result has the filter's type, as declared. What autodiff
    makes; its own gradients are convolutions again.
  }];
}

defvar poolAttrs = (ins I64ArrayAttr:$window, I64ArrayAttr:$strides, I64ArrayAttr:$padding);
def Tessera_MaxPool2dOp : Tessera_ShapeOp<"max_pool2d", "largest of each window",
    !con((ins Tessera_Tensor:$input), poolAttrs)> {
  let description = [{
    An image of floats, [N, H, W, C], to [N, H', W', C]; H' as conv2d's without dilation. Padding never
    wins; it must be smaller than the window.
  }];
}
def Tessera_AvgPool2dOp : Tessera_ShapeOp<"avg_pool2d",
    "mean of each window; padding counts as zeros unless `exclude_padding`",
    !con((ins Tessera_Tensor:$input), poolAttrs, (ins UnitAttr:$exclude_padding))> {
  let description = [{
    An image of floats, [N, H, W, C], to [N, H', W', C]; H' as conv2d's without dilation. The divisor is
    the window's size, or with `exclude_padding` the number of elements it covers.
  }];
}
def Tessera_MaxPool2dGradOp : Tessera_ValueOp<"max_pool2d_grad",
    [AllTypesMatch<["input", "result"]>]> {
  let summary = "gradient of the image: each window's goes to its first largest element";
  let description = [{
    Operands: the image and the gradient of max_pool2d's result; attributes as there.
  }];
  let arguments = !con((ins Tessera_Tensor:$input, Tessera_Tensor:$dresult), poolAttrs);
  let assemblyFormat = "$input `,` $dresult attr-dict `:` type($input) `,` type($dresult)";
}
def Tessera_AvgPool2dGradOp : Tessera_ShapeOp<"avg_pool2d_grad",
    "gradient of the image: each window's is shared by its elements",
    !con((ins Tessera_Tensor:$input), poolAttrs, (ins UnitAttr:$exclude_padding))> {
  let description = [{
    The operand is the gradient of avg_pool2d's result; attributes as there; the result has the image's
    type, as declared.
  }];
}
