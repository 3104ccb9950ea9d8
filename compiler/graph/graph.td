// SPDX-License-Identifier: Apache-2.0
//
// Graph IR: dialect `tessera`. Syntax, types and effects stand here; what an op means for shapes,
// values and gradients stands in C, one row per op in ops.def.
//
// Values are immutable tensors. Shapes are NumPy's: row-major, broadcasting from the right, a
// missing or 1-sized dimension stretches.
#ifndef TSR_GRAPH_TD
#define TSR_GRAPH_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tessera_Dialect : Dialect {
  let name = "tessera";
  let cppNamespace = "::tessera::graph";
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    ::mlir::Type parseType(::mlir::DialectAsmParser &parser) const override;
    void printType(::mlir::Type type, ::mlir::DialectAsmPrinter &printer) const override;
  }];
}

// ---- types ---------------------------------------------------------------------------------

def Tessera_Element : AnyTypeOf<[F64, F32, BF16, F16, I64, I32, I8, UI8, I1],
    "f64, f32, bf16, f16, i64, i32, i8, ui8 or i1">;
def Tessera_Tensor : RankedTensorOf<[Tessera_Element]>;

// ---- attributes ----------------------------------------------------------------------------

// A finite double; written as a floating-point literal with an optional sign.
class Tessera_F64<string desc> : AttrOrTypeParameter<"::mlir::FloatAttr", desc> {
  let parser = "::tessera::parseF64($_parser)";
  let printer = "::tessera::printF64($_printer, $_self)";
}

class Tessera_Attr<string cppName, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Tessera_Dialect, cppName, traits> {
  let mnemonic = attrMnemonic;
}

// A rule for initial values carries the tensor's type, as dense<…> does.
class Tessera_RuleAttr<string cppName, string attrMnemonic>
    : Tessera_Attr<cppName, attrMnemonic, [TypedAttrInterface]>;

def Tessera_UniformAttr : Tessera_RuleAttr<"Uniform", "uniform"> {
  let summary = "initial values drawn uniformly from [low, high)";
  let parameters = (ins AttributeSelfTypeParameter<"">:$type, Tessera_F64<"lowest value">:$low,
      Tessera_F64<"bound">:$high);
  let assemblyFormat = "`<` $low `,` $high `>`";
}

def Tessera_NormalAttr : Tessera_RuleAttr<"Normal", "normal"> {
  let summary = "initial values drawn from a normal distribution";
  let parameters = (ins AttributeSelfTypeParameter<"">:$type, Tessera_F64<"mean">:$mean,
      Tessera_F64<"standard deviation">:$deviation);
  let assemblyFormat = "`<` $mean `,` $deviation `>`";
}

def Tessera_ConstantAttr : Tessera_RuleAttr<"Constant", "constant"> {
  let summary = "every element has this initial value";
  let parameters = (ins AttributeSelfTypeParameter<"">:$type, Tessera_F64<"value">:$value);
  let assemblyFormat = "`<` $value `>`";
}

def Tessera_InitAttr : AnyAttrOf<[Tessera_UniformAttr, Tessera_NormalAttr, Tessera_ConstantAttr],
    "#tessera.uniform, #tessera.normal or #tessera.constant">;

def Tessera_AdamWAttr : Tessera_Attr<"AdamW", "adamw"> {
  let summary = "AdamW with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2)";
  let parameters = (ins Tessera_F64<"learning rate">:$lr, Tessera_F64<"decay of the mean">:$beta1,
      Tessera_F64<"decay of the square">:$beta2, Tessera_F64<"added to the root">:$eps,
      Tessera_F64<"per step, times lr">:$weight_decay);
  let assemblyFormat = "`<` struct(params) `>`";
}

class Tessera_SgdBase<string cppName, string attrMnemonic> : Tessera_Attr<cppName, attrMnemonic> {
  let parameters = (ins Tessera_F64<"learning rate">:$lr, Tessera_F64<"decay of the velocity">:$momentum,
      Tessera_F64<"added to the gradient, times the parameter">:$weight_decay);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Tessera_SgdAttr : Tessera_SgdBase<"Sgd", "sgd"> {
  let summary = "gradient descent with momentum and coupled weight decay";
}

def Tessera_NesterovAttr : Tessera_SgdBase<"Nesterov", "nesterov"> {
  let summary = "sgd that looks ahead along the velocity (Sutskever et al. 2013, section 2)";
}

def Tessera_SgdAttrs : AnyAttrOf<[Tessera_SgdAttr, Tessera_NesterovAttr],
    "#tessera.sgd or #tessera.nesterov">;
def Tessera_OptimizerAttr : AnyAttrOf<[Tessera_AdamWAttr, Tessera_SgdAttr, Tessera_NesterovAttr],
    "#tessera.adamw, #tessera.sgd or #tessera.nesterov">;

def Tessera_Predicate : I32EnumAttr<"Predicate", "comparison", [
    I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>,
    I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]> {
  let cppNamespace = "::tessera::graph";
}

include "compiler/resilience/dotted.td"

// ---- op classes ----------------------------------------------------------------------------

class Tessera_Op<string mnemonic, list<Trait> traits = []> : Op<Tessera_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
}

// One result, no effect: common subexpressions merge, unused ones vanish, constants fold.
class Tessera_ValueOp<string mnemonic, list<Trait> traits = []>
    : Tessera_Op<mnemonic, traits # [Pure]> {
  let results = (outs Tessera_Tensor:$result);
  let hasFolder = 1;
}

class Tessera_UnaryOp<string mnemonic, string what>
    : Tessera_ValueOp<mnemonic, [AllTypesMatch<["input", "result"]>]> {
  let summary = what;
  let arguments = (ins Tessera_Tensor:$input);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

class Tessera_BinaryOp<string mnemonic, string what> : Tessera_ValueOp<mnemonic> {
  let summary = what;
  let arguments = (ins Tessera_Tensor:$lhs, Tessera_Tensor:$rhs);
  let assemblyFormat = [{
    $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
}

class Tessera_ReduceOp<string mnemonic, string what> : Tessera_ValueOp<mnemonic> {
  let summary = what;
  let arguments = (ins Tessera_Tensor:$input, I64ArrayAttr:$axes);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

class Tessera_ShapeOp<string mnemonic, string what, dag args> : Tessera_ValueOp<mnemonic> {
  let summary = what;
  let arguments = args;
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

// ---- parameters, state, training -----------------------------------------------------------

def Tessera_ParamOp : Tessera_Op<"param", [Pure]> {
  let summary = "a parameter's value as it was before this step";
  let description = [{
    A parameter has a stable name, and either an `init` rule or stored `data`.
    `tessera.param "w" init = #tessera.uniform<-0.1, 0.1> : tensor<4x4xf32>`
    `tessera.param "b" data = dense<[1.0, 2.0]> : tensor<2xf32>`
  }];
  let arguments = (ins OptionalAttr<StrAttr>:$name, OptionalAttr<Tessera_InitAttr>:$init,
      OptionalAttr<ElementsAttr>:$data);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = [{
    ($name^)? attr-dict custom<Initial>($init, $data, type($result))
  }];
}

def Tessera_OptStateOp : Tessera_Op<"opt.state", [Pure]> {
  let summary = "optimizer state of a parameter, as it was before this step";
  let arguments = (ins OptionalAttr<StrAttr>:$name, OptionalAttr<StrAttr>:$of,
      OptionalAttr<StrAttr>:$kind, OptionalAttr<Tessera_InitAttr>:$init);
  let results = (outs AnyTypeOf<[AnyTensor, Tessera_OptStateType]>:$result);
  let assemblyFormat = [{
    ($name^)? (`of` $of^)? (`kind` $kind^)? attr-dict custom<Rule>($init, type($result))
  }];
}

def Tessera_AssignOp : Tessera_Op<"assign"> {
  let summary = "the value becomes the named tensor's next value, when the step ends";
  let arguments = (ins Tessera_Tensor:$value, StrAttr:$target);
  let assemblyFormat = "$value `to` $target attr-dict `:` type($value)";
}

def Tessera_StepOp : Tessera_Op<"step", [Pure]> {
  let summary = "the number of this step, from 1";
  let results = (outs Tessera_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tessera_MinimizeOp : Tessera_Op<"minimize"> {
  let summary = "one optimizer step on every parameter the loss depends on";
  let arguments = (ins Tessera_Tensor:$loss, Tessera_OptimizerAttr:$optimizer);
  let assemblyFormat = "$loss attr-dict `:` type($loss)";
}

def Tessera_AdamWOp : Tessera_Op<"adamw", [Pure,
    AllTypesMatch<["param", "grad", "m", "v", "new_param", "new_m", "new_v"]>]> {
  let summary = "new parameter, first and second moment after one AdamW step";
  let arguments = (ins Tessera_Tensor:$param, Tessera_Tensor:$grad, Tessera_Tensor:$m,
      Tessera_Tensor:$v, Tessera_Tensor:$step, Tessera_AdamWAttr:$optimizer);
  let results = (outs Tessera_Tensor:$new_param, Tessera_Tensor:$new_m, Tessera_Tensor:$new_v);
  let assemblyFormat = [{
    $param `,` $grad `,` $m `,` $v `,` $step attr-dict `:` type($param) `,` type($step)
  }];
}

def Tessera_SgdOp : Tessera_Op<"sgd", [Pure,
    AllTypesMatch<["param", "grad", "velocity", "new_param", "new_velocity"]>]> {
  let summary = "new parameter and velocity after one step of gradient descent";
  let arguments = (ins Tessera_Tensor:$param, Tessera_Tensor:$grad, Tessera_Tensor:$velocity,
      Tessera_SgdAttrs:$optimizer);
  let results = (outs Tessera_Tensor:$new_param, Tessera_Tensor:$new_velocity);
  let assemblyFormat = "$param `,` $grad `,` $velocity attr-dict `:` type($param)";
}

// ---- values --------------------------------------------------------------------------------

def Tessera_ConstantOp : Tessera_ValueOp<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "a tensor known at build time";
  let arguments = (ins ElementsAttr:$value);
  let assemblyFormat = "$value attr-dict";
}

def Tessera_AddOp : Tessera_BinaryOp<"add", "lhs + rhs">;
def Tessera_SubOp : Tessera_BinaryOp<"sub", "lhs - rhs">;
def Tessera_MulOp : Tessera_BinaryOp<"mul", "lhs * rhs">;
def Tessera_DivOp : Tessera_BinaryOp<"div", "lhs / rhs; integers truncate toward zero">;
def Tessera_MaxOp : Tessera_BinaryOp<"max", "the larger of lhs and rhs">;
def Tessera_MinOp : Tessera_BinaryOp<"min", "the smaller of lhs and rhs">;
def Tessera_IPowOp : Tessera_BinaryOp<"ipow", "lhs (float) to the power rhs (i64)">;

def Tessera_PowOp : Tessera_BinaryOp<"pow", "lhs (float) to the power rhs, as IEEE 754's pow">;
def Tessera_AndOp : Tessera_BinaryOp<"and", "i1: both">;
def Tessera_OrOp : Tessera_BinaryOp<"or", "i1: one or both">;
def Tessera_XorOp : Tessera_BinaryOp<"xor", "i1: just one">;

def Tessera_NegOp : Tessera_UnaryOp<"neg", "-x">;
def Tessera_ReluOp : Tessera_UnaryOp<"relu", "max(x, 0)">;
def Tessera_ExpOp : Tessera_UnaryOp<"exp", "e to the x">;
def Tessera_LogOp : Tessera_UnaryOp<"log", "natural logarithm">;
def Tessera_TanhOp : Tessera_UnaryOp<"tanh", "hyperbolic tangent">;
def Tessera_SqrtOp : Tessera_UnaryOp<"sqrt", "square root">;
def Tessera_AbsOp : Tessera_UnaryOp<"abs", "absolute value">;
def Tessera_Expm1Op : Tessera_UnaryOp<"expm1", "e to the x, minus 1">;
def Tessera_Log1pOp : Tessera_UnaryOp<"log1p", "natural logarithm of 1 + x">;
def Tessera_RsqrtOp : Tessera_UnaryOp<"rsqrt", "1 / square root">;
def Tessera_ErfOp : Tessera_UnaryOp<"erf", "error function">;
def Tessera_SigmoidOp : Tessera_UnaryOp<"sigmoid", "1 / (1 + exp(-x))">;
def Tessera_SiluOp : Tessera_UnaryOp<"silu", "x / (1 + exp(-x))">;
def Tessera_SignOp : Tessera_UnaryOp<"sign", "-1, 1, or x where it is zero or NaN">;
def Tessera_FloorOp : Tessera_UnaryOp<"floor", "the largest integer that is not above x">;
def Tessera_NotOp : Tessera_UnaryOp<"not", "i1: the other">;

def Tessera_GeluOp : Tessera_ValueOp<"gelu", [AllTypesMatch<["input", "result"]>]> {
  let summary = "x times the normal distribution's cumulative function at x";
  let description = [{
    `approximate` is "none": x (1 + erf(x / sqrt(2))) / 2, or "tanh":
    x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
  }];
  let arguments = (ins Tessera_Tensor:$input,
      DefaultValuedAttr<StrAttr, "\"none\"">:$approximate);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Tessera_ClampOp : Tessera_ValueOp<"clamp", [AllTypesMatch<["input", "result"]>]> {
  let summary = "low where x is below it, high where x is above it, else x";
  let arguments = (ins Tessera_Tensor:$input, F64Attr:$low, F64Attr:$high);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Tessera_CompareOp : Tessera_ValueOp<"compare"> {
  let summary = "i1: does lhs compare so with rhs";
  let arguments = (ins Tessera_Predicate:$predicate, Tessera_Tensor:$lhs, Tessera_Tensor:$rhs);
  let assemblyFormat = [{
    $predicate $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
}

def Tessera_WhereOp : Tessera_ValueOp<"where"> {
  let summary = "on_true where the condition holds, else on_false";
  let arguments = (ins Tessera_Tensor:$condition, Tessera_Tensor:$on_true, Tessera_Tensor:$on_false);
  let assemblyFormat = [{
    $condition `,` $on_true `,` $on_false attr-dict `:`
    type($condition) `,` type($on_true) `,` type($on_false) `->` type($result)
  }];
}

def Tessera_CastOp : Tessera_ValueOp<"cast"> {
  let summary = "the same values in another element type";
  let arguments = (ins Tessera_Tensor:$input);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
}

def Tessera_MatmulOp : Tessera_ValueOp<"matmul"> {
  let summary = "matrix product over the last two dims; those before broadcast";
  let arguments = (ins Tessera_Tensor:$lhs, Tessera_Tensor:$rhs,
      DefaultValuedAttr<BoolAttr, "false">:$transpose_a,
      DefaultValuedAttr<BoolAttr, "false">:$transpose_b);
  let assemblyFormat = [{
    $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
}

def Tessera_SumOp : Tessera_ReduceOp<"sum", "sum over the axes, which disappear">;
def Tessera_MeanOp : Tessera_ReduceOp<"mean", "mean over the axes, which disappear">;
def Tessera_ReduceMaxOp : Tessera_ReduceOp<"reduce_max", "largest over the axes, which disappear">;
def Tessera_ReduceMinOp : Tessera_ReduceOp<"reduce_min", "smallest over the axes, which disappear">;
def Tessera_ReduceProdOp : Tessera_ReduceOp<"reduce_prod", "product over the axes, which disappear">;

def Tessera_ArgmaxOp : Tessera_ShapeOp<"argmax", "i64: index of the first largest along the axis",
    (ins Tessera_Tensor:$input, I64Attr:$axis)>;
def Tessera_ReshapeOp : Tessera_ShapeOp<"reshape", "the same elements in another shape",
    (ins Tessera_Tensor:$input)>;
def Tessera_TransposeOp : Tessera_ShapeOp<"transpose", "result dim i is input dim permutation[i]",
    (ins Tessera_Tensor:$input, I64ArrayAttr:$permutation)>;
def Tessera_BroadcastOp : Tessera_ShapeOp<"broadcast", "stretch to the result's shape",
    (ins Tessera_Tensor:$input)>;

def Tessera_CrossEntropyOp : Tessera_ValueOp<"cross_entropy"> {
  let summary = "per row: logsumexp(logits) - logits[label]";
  let arguments = (ins Tessera_Tensor:$logits, Tessera_Tensor:$labels);
  let assemblyFormat = [{
    $logits `,` $labels attr-dict `:` type($logits) `,` type($labels) `->` type($result)
  }];
}

def Tessera_CrossEntropyGradOp : Tessera_ValueOp<"cross_entropy_grad"> {
  let summary = "per row: (softmax(logits) - onehot(label)) * dloss";
  let arguments = (ins Tessera_Tensor:$logits, Tessera_Tensor:$labels, Tessera_Tensor:$dlosses);
  let assemblyFormat = [{
    $logits `,` $labels `,` $dlosses attr-dict `:`
    type($logits) `,` type($labels) `,` type($dlosses) `->` type($result)
  }];
}

// ---- moving elements -----------------------------------------------------------------------

// Any number of operands of one kind.
class Tessera_ManyOp<string mnemonic, string what, list<Trait> traits = []>
    : Tessera_ValueOp<mnemonic, traits> {
  let summary = what;
  let assemblyFormat = "$inputs attr-dict `:` type($inputs) `->` type($result)";
}

def Tessera_SliceOp : Tessera_ShapeOp<"slice", "`size` elements of each dim, from `start` by `stride`",
    (ins Tessera_Tensor:$input, I64ArrayAttr:$start, I64ArrayAttr:$size,
     OptionalAttr<I64ArrayAttr>:$stride)>;
def Tessera_PadOp : Tessera_ShapeOp<"pad",
    "`value` before and after each dim, and between its elements",
    (ins Tessera_Tensor:$input, I64ArrayAttr:$low, I64ArrayAttr:$high,
     OptionalAttr<I64ArrayAttr>:$interior, DefaultValuedAttr<F64Attr, "0.0">:$value)>;

def Tessera_ConcatOp : Tessera_ManyOp<"concat", "the operands one after the other along the axis"> {
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64Attr:$axis);
}

def Tessera_SplitOp : Tessera_Op<"split", [Pure]> {
  let summary = "consecutive parts along the axis, of the results' sizes";
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
    (ins Tessera_Tensor:$input, I64Attr:$axis)>;

def Tessera_IotaOp : Tessera_ValueOp<"iota"> {
  let summary = "each element is its place along the axis";
  let arguments = (ins I64Attr:$axis);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tessera_CumsumOp : Tessera_ValueOp<"cumsum", [AllTypesMatch<["input", "result"]>]> {
  let summary = "sums of the elements up to each, in order of the axis";
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
    (ins Tessera_Tensor:$input, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "false">:$descending)>;
def Tessera_TopKOp : Tessera_SortingOp<"top_k",
    "the k largest along the axis, largest first, and where they were",
    (ins Tessera_Tensor:$input, I64Attr:$axis, I64Attr:$k)>;

// ---- rows: softmax and norms ---------------------------------------------------------------

def Tessera_SoftmaxSafeOp : Tessera_ValueOp<"softmax_safe", [AllTypesMatch<["input", "result"]>]> {
  let summary = "exp(x - max) over its sum along the axis; 0 where all are -inf";
  let arguments = (ins Tessera_Tensor:$input, I64Attr:$axis);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Tessera_LogsumexpSafeOp : Tessera_ReduceOp<"logsumexp_safe",
    "log of the sum of exponentials over the axes, by way of the largest">;

class Tessera_NormOp<string mnemonic, string what> : Tessera_ManyOp<mnemonic, what> {
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64ArrayAttr:$axes,
      DefaultValuedAttr<F64Attr, "1.0e-5">:$eps);
}
def Tessera_LayernormSafeOp : Tessera_NormOp<"layernorm_safe",
    "(x - mean) / sqrt(variance + eps) over the axes, times scale, plus bias">;
def Tessera_RmsnormSafeOp : Tessera_NormOp<"rmsnorm_safe",
    "x / sqrt(mean of squares + eps) over the axes, times scale">;

def Tessera_BatchNormOp : Tessera_ManyOp<"batch_norm",
    "(x - mean) / sqrt(variance + eps) * scale + bias, one of each per channel"> {
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64Attr:$axis,
      DefaultValuedAttr<F64Attr, "1.0e-5">:$eps);
}

def Tessera_BatchNormTrainOp : Tessera_Op<"batch_norm_train", [Pure]> {
  let summary = "batch_norm by the batch's own mean and variance, and the next running ones";
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

    Results: [B, H, S, E], and perhaps [B, H, S] of f32 (f64 for f64): the log of the sum of
    exponentials of each query, which the gradient needs.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, UnitAttr:$causal,
      OptionalAttr<F64Attr>:$scale);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let assemblyFormat = "$inputs attr-dict `:` type($inputs) `->` type($results)";
}

def Tessera_AttentionGradOp : Tessera_Op<"attention_grad", [Pure]> {
  let summary = "gradients of q, k and v";
  let description = [{
    Operands: those of attention without the mask, its result, its logsumexp, the gradient of the
    result, and perhaps the mask.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, UnitAttr:$causal,
      OptionalAttr<F64Attr>:$scale);
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
    (ins Tessera_Tensor:$a, Tessera_Tensor:$b)>;
def Tessera_Conv2dGradInputOp : Tessera_ConvOp<"conv2d_grad_input",
    "gradient of the image, of the filter (a) and the result's gradient (b)",
    (ins Tessera_Tensor:$a, Tessera_Tensor:$b)>;
def Tessera_Conv2dGradFilterOp : Tessera_ConvOp<"conv2d_grad_filter",
    "gradient of the filter, of the image (a) and the result's gradient (b)",
    (ins Tessera_Tensor:$a, Tessera_Tensor:$b)>;

defvar poolAttrs = (ins I64ArrayAttr:$window, I64ArrayAttr:$strides, I64ArrayAttr:$padding);
def Tessera_MaxPool2dOp : Tessera_ShapeOp<"max_pool2d", "largest of each window",
    !con((ins Tessera_Tensor:$input), poolAttrs)>;
def Tessera_AvgPool2dOp : Tessera_ShapeOp<"avg_pool2d",
    "mean of each window; padding counts as zeros unless `exclude_padding`",
    !con((ins Tessera_Tensor:$input), poolAttrs, (ins UnitAttr:$exclude_padding))>;
def Tessera_MaxPool2dGradOp : Tessera_ValueOp<"max_pool2d_grad",
    [AllTypesMatch<["input", "result"]>]> {
  let summary = "gradient of the image: each window's goes to its first largest element";
  let arguments = !con((ins Tessera_Tensor:$input, Tessera_Tensor:$dresult), poolAttrs);
  let assemblyFormat = "$input `,` $dresult attr-dict `:` type($input) `,` type($dresult)";
}
def Tessera_AvgPool2dGradOp : Tessera_ShapeOp<"avg_pool2d_grad",
    "gradient of the image: each window's is shared by its elements",
    !con((ins Tessera_Tensor:$input), poolAttrs, (ins UnitAttr:$exclude_padding))>;

// ---- random numbers ------------------------------------------------------------------------

// Two of them are two streams, however alike they look: not Pure, so nothing merges them. The stream
// is set by pass tessera-streams, from the call path.
class Tessera_RandomOp<string mnemonic, string what, dag args> : Tessera_Op<mnemonic> {
  let summary = what;
  let arguments = !con(args, (ins OptionalAttr<I64Attr>:$stream));
  let results = (outs Tessera_Tensor:$result);
}
def Tessera_DropoutOp : Tessera_RandomOp<"dropout",
    "0 with probability `rate`, else x / (1 - rate); x itself outside train entries",
    (ins Tessera_Tensor:$input, F64Attr:$rate)> {
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}
def Tessera_RandomUniformOp : Tessera_RandomOp<"random_uniform", "drawn uniformly from [low, high)",
    (ins DefaultValuedAttr<F64Attr, "0.0">:$low, DefaultValuedAttr<F64Attr, "1.0">:$high)> {
  let assemblyFormat = "attr-dict `:` type($result)";
}
def Tessera_RandomNormalOp : Tessera_RandomOp<"random_normal", "drawn from a normal distribution",
    (ins DefaultValuedAttr<F64Attr, "0.0">:$mean, DefaultValuedAttr<F64Attr, "1.0">:$deviation)> {
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tessera_SeedOp : Tessera_Op<"seed", [Pure]> {
  let summary = "the seed of the run";
  let results = (outs Tessera_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tessera_PhiloxOp : Tessera_ValueOp<"philox"> {
  let summary = "elementwise: Philox4x32-10 at each logical element";
  let description = [{
    Key: the seed's low 32 bits, `stream`. Counter: the step's low 32 bits, the element's low and high
    32 bits, `draw`. f32: word 0 in [0, 1) with 24 bits; f64: words 0 (high) and 1 (low), 53 bits; or,
    with `normal`, the standard normal of those two words, rounded (runtime/base/philox.h).
  }];
  let arguments = (ins Tessera_Tensor:$element, Tessera_Tensor:$step, Tessera_Tensor:$seed,
      I64Attr:$stream, DefaultValuedAttr<I64Attr, "0">:$draw, UnitAttr:$normal);
  let assemblyFormat = [{
    $element `,` $step `,` $seed attr-dict `:` type($element) `,` type($step) `,` type($seed)
    `->` type($result)
  }];
}

// ---- control -------------------------------------------------------------------------------

def Tessera_YieldOp : Tessera_Op<"yield", [Pure, Terminator]> {
  let summary = "results of a region";
  let arguments = (ins Variadic<Tessera_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Tessera_IfOp : Tessera_Op<"if", [RecursiveMemoryEffects]> {
  let summary = "one of two regions, by a scalar i1";
  let arguments = (ins Tessera_Tensor:$condition);
  let regions = (region SizedRegion<1>:$then_body, SizedRegion<1>:$else_body);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let assemblyFormat = [{
    $condition $then_body `else` $else_body attr-dict `:` type($condition) `->` type($results)
  }];
}

def Tessera_WhileOp : Tessera_Op<"while", [RecursiveMemoryEffects]> {
  let summary = "the body again and again while the condition holds, at most `limit` times";
  let description = [{
    Both regions take the carried values; the first yields a scalar i1, the second the next values.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64Attr:$limit);
  let regions = (region SizedRegion<1>:$condition, SizedRegion<1>:$body);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let assemblyFormat = [{
    $inputs $condition `do` $body attr-dict `:` type($inputs) `->` type($results)
  }];
}

def Tessera_ScanOp : Tessera_Op<"scan", [RecursiveMemoryEffects]> {
  let summary = "the body for each slice of the sequences along dim 0, in order";
  let description = [{
    The first `carried` operands are carried from one iteration to the next, the others are sequences
    of equal length. The region takes the carried values and one slice of each sequence; it yields the
    next carried values, then one slice of each result sequence. Without sequences `length` says how
    often. With `reverse` the last slice comes first.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64Attr:$carried,
      OptionalAttr<I64Attr>:$length, UnitAttr:$reverse);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let assemblyFormat = "$inputs $body attr-dict `:` type($inputs) `->` type($results)";
}

#endif
